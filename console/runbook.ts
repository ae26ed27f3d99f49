import { type Document, renderDocument } from './document.ts'
import { type Html, html, verbatim } from './html.ts'

/** The runbook of this version: an operator at night may have no other network. */
export function renderRunbook(text: string | undefined): Document {
  const body = html`<a class="skip" href="#main">Skip to the content</a>
<header class="bar"><p class="brand">Sallyport <span>runbook</span></p><nav aria-label="Pages"><ul><li><a href="/">Console</a></li></ul></nav></header>
<main id="main" tabindex="-1" class="prose">
${text === undefined ? html`<h1>Runbook</h1><p>This installation has no copy of docs/guides/runbook.md.</p>` : renderMarkdown(text)}</main>
`
  return renderDocument({ title: 'Sallyport runbook', body, script: verbatim(''), isServed: true })
}

/** Renders headings, paragraphs and lists, the only Markdown in the runbook. Each line is scanned once. */
function renderMarkdown(text: string): readonly Html[] {
  const blocks: Html[] = []
  let paragraph: string[] = []
  let items: Html[] = []
  const end = (): void => {
    if (paragraph.length > 0) blocks.push(html`<p>${paragraph.map(renderLine)}</p>\n`)
    if (items.length > 0) blocks.push(html`<ul>${items}</ul>\n`)
    paragraph = []
    items = []
  }
  for (const line of text.split('\n')) {
    const level = /^#{1,3} /.exec(line)?.[0].length
    if (line === '' || level !== undefined || line.startsWith('**')) end()
    if (level !== undefined) blocks.push(renderHeading(level - 1, line.slice(level)))
    else if (line.startsWith('- ')) items.push(html`<li>${renderLine(line.slice(2))}</li>`)
    else if (line !== '') paragraph.push(line)
  }
  end()
  return blocks
}

function renderHeading(level: number, title: string): Html {
  const id = title.toLowerCase().replaceAll(' ', '-')
  if (level === 1) return html`<h1 id="${id}">${title}</h1>\n`
  return level === 2 ? html`<h2 id="${id}">${title}</h2>\n` : html`<h3 id="${id}">${title}</h3>\n`
}

const renderLine = (line: string): Html =>
  html`${line
    .replaceAll(/\[([^\]]{0,200})\]\([^)]{0,200}\)/g, '$1')
    .split(/(`[^`]{0,400}`|\*\*[^*]{0,80}\*\*)/)
    .map((part) => {
      if (part.length > 2 && part.startsWith('`') && part.endsWith('`')) return html`<code>${part.slice(1, -1)}</code>`
      if (part.length > 4 && part.startsWith('**') && part.endsWith('**'))
        return html`<strong>${part.slice(2, -2)}</strong>`
      return html`${part}`
    })} `
