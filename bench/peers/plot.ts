import type { Row } from './contest.ts'

const rowHeight = 26
const labelWidth = 250
const barWidth = 420

/** Bars of the processor time of each row, as an SVG that fits light and dark pages. */
export function plot(rows: readonly Row[]): string {
  const sorted = rows.toSorted((left, right) => left.cpuMicrosPerRequest - right.cpuMicrosPerRequest)
  const most = Math.max(...rows.map(({ cpuMicrosPerRequest }) => cpuMicrosPerRequest))
  const bars = sorted.map(({ name, cpuMicrosPerRequest }, index) => {
    const y = index * rowHeight + 34
    const width = (cpuMicrosPerRequest / most) * barWidth
    const color = name.startsWith('sallyport') ? '#2f6fde' : '#9aa4b2'
    return `<text x="${labelWidth - 8}" y="${y + 13}" text-anchor="end">${escapeText(name)}</text>
<rect x="${labelWidth}" y="${y}" width="${width.toFixed(1)}" height="18" rx="2" fill="${color}"/>
<text x="${(labelWidth + width + 6).toFixed(1)}" y="${y + 13}">${cpuMicrosPerRequest.toFixed(1)}</text>`
  })
  const height = rows.length * rowHeight + 44
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${labelWidth + barWidth + 60} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#7a8494">
<title>Microseconds of processor time a request, by the way it takes</title>
<text x="${labelWidth}" y="18" font-weight="600">Microseconds of processor time a request (less is better)</text>
${bars.join('\n')}
</svg>
`
}

export const escapeText = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
