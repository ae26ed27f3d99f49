// The site of docs/: `npm run site`. It shows the files as they are, and asks no other server for anything.
import { cpSync, existsSync, statSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { composeSidebar } from '../sidebar.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** Pages beside docs/, to which pages of docs/ lead. */
const others = ['README.md', 'SECURITY.md', 'SUPPORT.md', 'CONTRIBUTING.md', 'CODE_OF_CONDUCT.md', 'CHANGELOG.md']
const inner = ['helm/sallyport/README.md', 'test/README.md', 'test/advisories/README.md']
const isPage = (file) =>
  file.endsWith('.md') && (file.startsWith('docs/') || others.includes(file) || inner.includes(file))

/** Files of the repository to which pages lead, for the copy after the build. */
const linked = new Set()

/** A link as the site needs it: a page, a file that is copied, or text for a folder. */
function translate(href, page) {
  if (/^[a-z]+:|^#|^\//.test(href)) return href
  const [path, anchor] = href.split('#')
  const file = relative(root, resolve(dirname(resolve(root, page)), decodeURI(path)))
  if (file.startsWith('..') || !existsSync(resolve(root, file))) throw new Error(`${page}: ${href} leads nowhere`)
  const suffix = anchor === undefined ? '' : `#${anchor}`
  if (isPage(file)) return `/${file.replace(/README\.md$/, 'index.md')}${suffix}`
  if (statSync(resolve(root, file)).isDirectory()) return undefined
  linked.add(file)
  return `/${file}`
}

function translateLinks(markdown) {
  markdown.core.ruler.push('repository-links', ({ tokens, env }) => {
    for (const token of tokens)
      for (const child of token.children ?? []) {
        if (child.type !== 'link_open') continue
        const href = translate(child.attrGet('href'), env.relativePath.replace(/index\.md$/, 'README.md'))
        if (href === undefined) child.attrs = []
        else child.attrSet('href', href)
        // The router of the site knows pages alone.
        if (href !== undefined && !/\.md(?:#|$)/.test(href) && href.startsWith('/')) child.attrSet('target', '_self')
      }
  })
}

/** Names of code in a table may break at their parts, so that a wide table fits its page. */
function breakCode(markdown) {
  const render = markdown.renderer.rules.code_inline
  markdown.renderer.rules.code_inline = (...args) => {
    const [tokens, index] = args
    const html = render(...args)
    return tokens[index].meta?.isInTable
      ? html.replace(/>[^<]*/, (text) => text.replaceAll(/[_./=,;{](?=\w)|[a-z](?=[A-Z])/g, '$&<wbr>'))
      : html
  }
  markdown.core.ruler.push('code-in-tables', ({ tokens }) => {
    let isInTable = false
    for (const { type, children } of tokens) {
      if (type.startsWith('table_')) isInTable = type === 'table_open'
      if (isInTable) for (const child of children ?? []) child.meta = { ...child.meta, isInTable }
    }
  })
}

const style = `
.vp-doc :is(th, td) { padding: 6px 10px; font-size: 13px; line-height: 20px; vertical-align: top }
.vp-doc .language-text code { font-size: 11px }
`

/** As GitHub makes it, so that a link holds at both places. */
const makeAnchor = (heading) =>
  heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

const item = (text, link) => ({ text, link })

export default {
  title: 'Sallyport',
  description: 'An authorization gateway and reverse proxy for multi-tenant platforms',
  srcDir: root,
  outDir: resolve(root, '.sallyport/site-pages'),
  cacheDir: resolve(root, '.sallyport/site-cache'),
  srcExclude: ['{coverage,dist*,examples,gateway,policies,scripts}/**', 'test/!(advisories|README.md)/**'],
  rewrites: (page) => page.replace(/(^|\/)README\.md$/, '$1index.md'),
  // A page by its path, on any server of files.
  cleanUrls: false,
  head: [
    ['link', { rel: 'icon', href: 'data:,' }],
    ['style', {}, style],
  ],
  lastUpdated: false,
  markdown: {
    config: (markdown) => {
      translateLinks(markdown)
      breakCode(markdown)
    },
    anchor: { slugify: makeAnchor },
    languageAlias: { caddyfile: 'nginx', haproxy: 'nginx' },
  },
  themeConfig: {
    nav: [
      item('Your platform', '/docs/tutorials/your-platform'),
      item('All pages', '/docs/'),
      item('Changes', '/CHANGELOG'),
    ],
    sidebar: composeSidebar(root),
    outline: [2, 3],
    search: { provider: 'local' },
  },
  buildEnd({ outDir }) {
    for (const file of linked) cpSync(resolve(root, file), resolve(outDir, file))
  },
}
