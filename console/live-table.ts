import { type Html, html } from './html.ts'

export type Head = string | Readonly<{ number: string }>

export type LiveTable = Readonly<{
  id: string
  caption: string
  heads: readonly Head[]
  rows: readonly Html[]
  empty: string
  isLarge?: boolean
}>

export const renderLiveTable = ({
  id,
  caption,
  heads,
  rows,
  empty,
  isLarge = false,
}: LiveTable): Html => html`<div class="box${
  isLarge ? ' large' : undefined
}" role="region" tabindex="0" aria-labelledby="${id}-caption">
<table id="${id}" data-live><caption id="${id}-caption">${caption}</caption>
<thead><tr>${heads.map(renderHead)}</tr></thead>
<tbody>${rows.length > 0 ? rows : html`<tr><td colspan="${heads.length}" class="quiet">${empty}</td></tr>`}</tbody></table></div>
`

const renderHead = (head: Head): Html =>
  typeof head === 'string'
    ? html`<th scope="col">${head}</th>`
    : html`<th scope="col" class="number">${head.number}</th>`
