import { type Html, html } from './html.ts'

export type Curve = Readonly<{ name: string; values: readonly (number | undefined)[] }>

export type Plot = Readonly<{
  id: string
  title: string
  unit: string
  curves: readonly Curve[]
  isStacked?: boolean
  from: string
  to: string
}>

const width = 600
const height = 120

/** Drawn on the server, without a script or library. The legend repeats the values as text. */
export function renderPlot({ id, title, unit, curves, isStacked = false, from, to }: Plot): Html {
  const drawn = isStacked ? stack(curves) : curves
  const highest = niceCeiling(Math.max(0, ...drawn.flatMap(({ values }) => values.map((value) => value ?? 0))))
  const paths = drawn.map((curve, index) => drawCurve(curve, index, highest, isStacked))
  const values = curves.map(({ name, values }) => `${name}: ${formatValue(lastOf(values), unit)}`)
  return html`<figure class="plot" aria-labelledby="${id}-title"><figcaption id="${id}-title">${title} <span class="quiet">${unit}</span></figcaption>
<div class="field"><span class="top" aria-hidden="true">${formatValue(highest, '')}</span><svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label="${title}, ${from} to ${to}. ${values.join(', ') || 'nothing so far'}"><path class="grid" d="M0 ${height / 2}H${width}M0 0.5H${width}M0 ${height - 0.5}H${width}"/>${isStacked ? [...paths].reverse() : paths}</svg></div>
<p class="axis" aria-hidden="true"><span>${from}</span><span>${to}</span></p>
<ul class="keys">${curves.map(
    ({ name, values }, index) =>
      html`<li><span class="key c${index}" aria-hidden="true"></span> ${name} <span class="quiet">${formatValue(lastOf(values), unit)}</span></li>`,
  )}${curves.length === 0 ? html`<li class="quiet">Nothing in this range.</li>` : undefined}</ul></figure>
`
}

export function renderSparkline(values: readonly number[]): Html | undefined {
  if (values.length < 2) return undefined
  const highest = Math.max(...values, 1e-9)
  const points = values.map((value, index) => `${place(index, values.length)},${rise(value, highest)}`)
  return html`<svg class="spark" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true"><polyline points="${points.join(' ')}"/></svg>`
}

function drawCurve({ values }: Curve, index: number, highest: number, isFilled: boolean): Html {
  const points = values.map((value, at) =>
    value === undefined ? undefined : `${place(at, values.length)} ${rise(value, highest)}`,
  )
  if (isFilled) return html`<path class="area c${index}" d="M0 ${height}L${points.join('L')}L${width} ${height}Z"/>`
  return html`<path class="curve c${index}" d="${joinRuns(points)}"/>`
}

function joinRuns(points: readonly (string | undefined)[]): string {
  let path = ''
  for (const [index, point] of points.entries()) {
    if (point === undefined) continue
    const isFirst = points[index - 1] === undefined
    path += `${isFirst ? 'M' : 'L'}${point}`
    if (isFirst && points[index + 1] === undefined) path += 'h3'
  }
  return path
}

const stack = (curves: readonly Curve[]): readonly Curve[] =>
  curves.map(({ name, values }, index) => ({
    name,
    values: values.map((_, at) =>
      curves.slice(0, index + 1).reduce((sum, { values: below }) => sum + (below[at] ?? 0), 0),
    ),
  }))

const place = (index: number, count: number): string => ((index / Math.max(1, count - 1)) * width).toFixed(1)

const rise = (value: number, highest: number): string => (height - 1 - (value / highest) * (height - 2)).toFixed(1)

function niceCeiling(value: number): number {
  if (value <= 0) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= value) ?? 10)
}

const lastOf = (values: readonly (number | undefined)[]): number | undefined =>
  values.findLast((value) => value !== undefined)

function formatValue(value: number | undefined, unit: string): string {
  if (value === undefined) return '–'
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 1 ? 1 : 2
  const number = value.toLocaleString('en-GB', { maximumFractionDigits: digits })
  return unit === '' ? number : `${number} ${unit}`
}
