import { type Html, html } from './html.ts'

/** A column's head; numbers stand to the right, digit under digit. */
export type Head = string | Readonly<{ number: string }>

export type LiveTable = Readonly<{
  id: string
  caption: string
  heads: readonly Head[]
  rows: readonly Html[]
  /** What is said where there is no row. */
  empty: string
  /** One that often has more columns or rows than fit gets a place in the order of the keyboard, to be scrolled. */
  isLarge?: boolean
}>

/** A table that is refreshed, in a box of its own to scroll in. */
export const renderLiveTable = ({
  id,
  caption,
  heads,
  rows,
  empty,
  isLarge = false,
}: LiveTable): Html => html`<div class="box${
  isLarge ? ' large' : undefined
}"${isLarge ? html` role="region" tabindex="0" aria-labelledby="${id}-caption"` : undefined}>
<table id="${id}" data-live><caption id="${id}-caption">${caption}</caption>
<thead><tr>${heads.map(renderHead)}</tr></thead>
<tbody>${rows.length > 0 ? rows : html`<tr><td colspan="${heads.length}" class="quiet">${empty}</td></tr>`}</tbody></table></div>
`

const renderHead = (head: Head): Html =>
  typeof head === 'string'
    ? html`<th scope="col">${head}</th>`
    : html`<th scope="col" class="number">${head.number}</th>`
