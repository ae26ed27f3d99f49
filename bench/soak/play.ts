import { Pool } from 'undici'
import type { Owner } from '../../test/support/owner.ts'
import { type Ask, drawScene, type Scene } from './scenes.ts'

/** The requests so far, and their outcome. */
export type Play = Readonly<{
  requests: () => number
  inFlight: () => number
  /** Unexpected results: their number, and a complaint for each kind with its count and its first result in full. */
  unexpected: () => number
  complaints: () => readonly string[]
  complain: (sort: string, detail?: string) => void
  /** Begins scenes at an even pace until it is stopped, and then waits for the last answers. */
  stop: () => Promise<void>
}>

const tickMs = 50
/** More sorts than a reader needs. */
const keptSorts = 20

/** Plays scenes against a gateway, as many a second whatever becomes of them. */
export function playScenes(
  owner: Owner,
  origin: string,
  scenes: readonly Scene[],
  rate: number,
  draw: () => number,
): Play {
  const pool = new Pool(origin, { connections: 256 })
  owner.teardown(() => pool.destroy())
  const sorts = new Map<string, { count: number; readonly detail: string }>()
  const playing = new Set<Promise<unknown>>()
  let requests = 0
  let unexpected = 0
  const complain = (sort: string, detail = ''): void => {
    unexpected += 1
    const known = sorts.get(sort)
    if (known) known.count += 1
    else if (sorts.size < keptSorts) sorts.set(sort, { count: 1, detail })
  }
  const ask: Ask = async ({ method, path, headers, body, status, ending }) => {
    requests += 1
    const answer = await pool.request({ method, path, headers: { ...headers }, body: body ?? null })
    const text = await answer.body.text()
    if (answer.statusCode !== status)
      complain(`${method} ${sortOf(path)}: ${answer.statusCode}, not ${status}`, text.slice(0, 200))
    else if (ending !== undefined && !text.includes(ending))
      complain(`${method} ${sortOf(path)} ended without ${ending}`)
    return text
  }
  const begin = (): void => {
    const scene = drawScene(scenes, draw)
    if (!scene) return
    const played = scene.play(ask).catch((error: unknown) => complain(`${scene.name}: ${String(error)}`))
    playing.add(played)
    void played.then(() => playing.delete(played))
  }
  const startedMs = performance.now()
  let begun = 0
  const timer = setInterval(() => {
    // After a pause of the machine the pace goes on; what was missed is not made up for in one burst.
    const due = Math.floor(((performance.now() - startedMs) / 1_000) * rate)
    for (const last = Math.min(due, begun + rate); begun < last; begun += 1) begin()
    begun = due
  }, tickMs)
  owner.teardown(() => clearInterval(timer))
  return {
    requests: () => requests,
    inFlight: () => playing.size,
    unexpected: () => unexpected,
    complaints: () => [...sorts].map(([sort, { count, detail }]) => `${count} times ${sort} ${detail}`),
    complain,
    stop: async () => {
      clearInterval(timer)
      await Promise.all(playing)
    },
  }
}

/** Ids apart, it is the same path. */
const sortOf = (path: string): string => path.replaceAll(/\d+/g, 'N')
