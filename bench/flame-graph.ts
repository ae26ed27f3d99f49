import { escapeText } from './peers/plot.ts'

/** The used part of a profile of V8. */
export type Profile = Readonly<{
  nodes: readonly Readonly<{
    id: number
    callFrame: Readonly<{ functionName: string; url: string; lineNumber: number }>
    children?: readonly number[]
  }>[]
  samples: readonly number[]
  /** Microseconds before each sample. */
  timeDeltas: readonly number[]
}>

type Frame = { name: string; place: string; micros: number; below: Map<string, Frame> }

const width = 1_000
const rowHeight = 17
const characterWidth = 6.2

/** Nothing of a process that works. */
const atRest = new Set(['(idle)'])

/** Adds up what was sampled, from the event loop down to what ran, callers above callees. */
export function foldProfile({ nodes, samples, timeDeltas }: Profile): Frame {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const self = new Map<number, number>()
  for (const [index, id] of samples.entries()) self.set(id, (self.get(id) ?? 0) + (timeDeltas[index] ?? 0))
  const fold = (id: number, into: Map<string, Frame>): number => {
    const node = byId.get(id)
    if (!node || atRest.has(node.callFrame.functionName)) return 0
    const { functionName, url } = node.callFrame
    const place = shorten(url)
    const key = `${functionName} ${place}`
    const frame = into.get(key) ?? { name: functionName || '(anonymous)', place, micros: 0, below: new Map() }
    into.set(key, frame)
    let micros = self.get(id) ?? 0
    for (const child of node.children ?? []) micros += fold(child, frame.below)
    frame.micros += micros
    return micros
  }
  const top = new Map<string, Frame>()
  const [root] = nodes
  if (root) fold(root.id, top)
  return top.values().next().value ?? { name: '(root)', place: '', micros: 0, below: new Map() }
}

/** A flame graph, the event loop on top; what is narrower than half a percent is left out. */
export function renderFlameGraph(profile: Profile, title: string, requests: number): string {
  const root = foldProfile(profile)
  const boxes: string[] = []
  let depths = 0
  const draw = (frame: Frame, x: number, depth: number): void => {
    const part = frame.micros / root.micros
    if (!(part >= 0.005)) return
    depths = Math.max(depths, depth + 1)
    boxes.push(renderBox(frame, { x, depth, part, microsPerRequest: frame.micros / requests }))
    let next = x
    for (const below of [...frame.below.values()].sort((left, right) => right.micros - left.micros)) {
      draw(below, next, depth + 1)
      next += (below.micros / root.micros) * width
    }
  }
  draw(root, 0, 0)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${depths * rowHeight + 26}" font-family="ui-monospace, monospace" font-size="10">
<title>${escapeText(title)}</title>
<text x="2" y="15" font-size="12" fill="#7a8494">${escapeText(title)}</text>
${boxes.join('\n')}
</svg>
`
}

type Box = Readonly<{ x: number; depth: number; part: number; microsPerRequest: number }>

function renderBox({ name, place }: Frame, { x, depth, part, microsPerRequest }: Box): string {
  const y = depth * rowHeight + 24
  const boxWidth = part * width
  const letters = Math.floor((boxWidth - 4) / characterWidth)
  const label =
    letters >= 3
      ? `<text x="${(x + 2).toFixed(1)}" y="${y + 12}" fill="#111">${escapeText(name.slice(0, letters))}</text>`
      : ''
  const told = `${name} ${place}: ${(part * 100).toFixed(1)} %, ${microsPerRequest.toFixed(2)} µs a request`
  return `<g><title>${escapeText(told)}</title><rect x="${x.toFixed(1)}" y="${y}" width="${Math.max(0.5, boxWidth - 0.5).toFixed(1)}" height="${rowHeight - 1}" fill="${chooseColor(place, name)}"/>${label}</g>`
}

/** The gateway, packages, Node's own code, and the rest: the garbage collector and the system's calls. */
function chooseColor(place: string, name: string): string {
  if (place.startsWith('dist/')) return '#8fb4f5'
  if (place.startsWith('node_modules/')) return '#bfe0c2'
  if (place.startsWith('node:')) return '#c9ced6'
  return name.startsWith('(') ? '#f0b48a' : '#f3d49b'
}

const shorten = (url: string): string => url.replace(/^.*\/(?=(?:dist|node_modules|test)\/)/, '')
