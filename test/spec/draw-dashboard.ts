import type { Panel } from '../support/dashboard.ts'
import { askedBy } from '../support/dashboard.ts'
import type { Curve, Prometheus } from '../support/prometheus.ts'

const columnWidth = 40
const rowHeight = 22
const colors = ['#3b82f6', '#ef4444', '#10b981', '#f59e0b', '#8b5cf6', '#64748b', '#ec4899', '#14b8a6']

const escapeText = (text: string): string => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`)

/** Draws the panels as an SVG, with the present results of their queries. It does not imitate the looks of Grafana. */
export async function drawPanels(
  prometheus: Pick<Prometheus, 'range'>,
  panels: readonly Panel[],
  seconds: number,
): Promise<string> {
  const top = Math.min(...panels.map(({ gridPos }) => gridPos.y))
  const bottom = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h))
  const parts = await Promise.all(panels.map((panel) => drawPanel(prometheus, panel, top, seconds)))
  const size = `${24 * columnWidth} ${(bottom - top) * rowHeight}`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size}" font-family="system-ui, sans-serif" font-size="11" fill="#7a8494">
<title>The dashboard: what its queries gave for a minute of the demo</title>
${parts.join('\n')}
</svg>
`
}

async function drawPanel(prometheus: Pick<Prometheus, 'range'>, panel: Panel, top: number, seconds: number) {
  const { gridPos, title, type, targets = [], fieldConfig } = panel
  const [x, y] = [gridPos.x * columnWidth + 4, (gridPos.y - top) * rowHeight + 4]
  const [width, height] = [gridPos.w * columnWidth - 8, gridPos.h * rowHeight - 8]
  const heading = `<text x="${x + 6}" y="${y + 14}" font-weight="600">${escapeText(title)}</text>`
  if (type === 'row') return heading
  const frame = `<rect x="${x}" y="${y}" width="${width}" height="${height}" rx="3" fill="none" stroke="#9aa4b2" stroke-opacity=".4"/>`
  const curves = (
    await Promise.all(
      targets.map(async ({ expr, legendFormat }) =>
        (
          await prometheus.range(askedBy(expr, '10s'), seconds)
        ).map((curve) => ({ ...curve, name: nameCurve(legendFormat, curve) })),
      ),
    )
  ).flat()
  const unit = fieldConfig?.defaults.unit ?? ''
  if (type === 'stat') {
    const last = curves[0]?.points.at(-1)?.[1] ?? Number.NaN
    return `${frame}${heading}<text x="${x + width / 2}" y="${y + height - 14}" font-size="20" text-anchor="middle">${tell(last, unit)}</text>`
  }
  const shown = [...curves].sort((one, other) => peak(other) - peak(one)).slice(0, colors.length)
  const most = Math.max(...shown.map(peak), 1e-9)
  const legendRows = Math.ceil(shown.length / 2)
  const [low, high] = [y + height - 8 - legendRows * 13, y + 24]
  const lines = shown.map(({ points }, index) => {
    const path = points.map(([at, value], count) => {
      const across = Math.round(x + 8 + at * (width - 16))
      return `${count === 0 ? 'M' : 'L'}${across} ${Math.round(low - (value / most) * (low - high))}`
    })
    return `<path d="${path.join('')}" fill="none" stroke="${colors[index]}"/>`
  })
  const legend = shown.map(({ name }, index) => {
    const [across, down] = [x + 8 + (index % 2) * (width / 2), low + 14 + Math.floor(index / 2) * 13]
    return `<rect x="${across}" y="${down - 7}" width="8" height="8" fill="${colors[index]}"/><text x="${across + 12}" y="${down}">${escapeText(name.slice(0, 26))}</text>`
  })
  const scale = `<text x="${x + width - 6}" y="${y + 14}" text-anchor="end">${tell(most, unit)}</text>`
  return [frame, heading, scale, ...lines, ...legend].join('')
}

const peak = ({ points }: Curve): number => Math.max(...points.map(([, value]) => value))

const nameCurve = (format: string, { metric }: Curve): string =>
  format.replace(/\{\{(\w+)\}\}/g, (_whole, label: string) => metric[label] ?? '').replace(/http:\/\/127\.0\.0\.1/g, '')

function tell(value: number, unit: string): string {
  if (unit === 'percentunit') return `${(value * 100).toFixed(1)} %`
  if (unit === 's') return value < 1 ? `${(value * 1_000).toPrecision(3)} ms` : `${value.toPrecision(3)} s`
  if (unit === 'reqps' || unit === 'ops') return `${value.toPrecision(3)}/s`
  return String(Number(value.toPrecision(4)))
}
