import { renderDocument } from './document.ts'
import { html } from './html.ts'
import { type MatrixLine, renderMatrix, renderSearch } from './matrix.ts'
import { matrixScript } from './script.ts'

/** The matrix as one HTML file to keep or to send: the same for the same table, and it asks nobody for anything. */
export const renderMatrixPage = (lines: readonly MatrixLine[]): string =>
  renderDocument({
    title: 'Sallyport: who may do what',
    isServed: false,
    script: matrixScript,
    body: html`<a class="skip" href="#main">Skip to the matrix</a>
<header class="bar"><p class="brand">Sallyport</p></header>
<main id="main" tabindex="-1"><section id="matrix" aria-labelledby="matrix-title">
<h1 id="matrix-title">Who may do what</h1>
${renderSearch(lines, '')}${renderMatrix(lines)}</section></main>
`,
  }).text
