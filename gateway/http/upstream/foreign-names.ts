import { guarded } from '../../base/fault/guarded.ts'
import { createBoundedMap } from '../../base/lib/bounded-map.ts'
import { createAskNameServers } from './ask-name-servers.ts'
import type { Address, ResolveName, Resolver } from './resolver.ts'

export type ForeignOptions = Readonly<{ ask?: ResolveName; monotonicMs?: () => number }>

/** Each is a question that waits on a socket, and takes no thread. */
const slots = 64

/** So 16 organizations with silent names alone fill the slots, and the next lookup of another waits for one turn. */
const slotsOfOwner = 4

/** Beyond it a lookup fails at once. Each waits for a name that nothing else waits for. */
const mostWaiting = 100

/** The rest of a name after a time-out, which doubles with each. */
const firstRestMs = 1_000
const longestRestMs = 30_000
const mostResting = 1_000

type Line = { running: number; readonly waiting: (() => void)[] }

type Rest = Readonly<{ untilMs: number; restMs: number }>

/**
 * Looks up names that tenants choose. A tenant's name server may be silent, so each lookup has a time-out of its
 * own, and a silent name rests before it is asked again. Organizations take turns.
 */
export function createForeignResolver({
  ask = createAskNameServers(),
  monotonicMs = () => performance.now(),
}: ForeignOptions = {}): Resolver {
  const lines = new Map<string, Line>()
  const rests = createBoundedMap<Rest>(mostResting)
  let running = 0
  const start = (): void => {
    for (const [owner, line] of lines) {
      if (running >= slots) return
      const next = line.running < slotsOfOwner ? line.waiting.shift() : undefined
      if (!next) continue
      // Its next turn comes behind all others.
      lines.delete(owner)
      lines.set(owner, line)
      next()
    }
  }
  const noteOutcome = (name: string, isSilent: boolean): void => {
    if (!isSilent) {
      rests.remove(name)
      return
    }
    const restMs = Math.min(longestRestMs, 2 * (rests.get(name)?.restMs ?? firstRestMs / 2))
    rests.set(name, { untilMs: monotonicMs() + restMs, restMs })
  }
  return {
    resolve: (name, { owner }, answer) => {
      const line = lines.get(owner) ?? { running: 0, waiting: [] }
      const isResting = (rests.get(name)?.untilMs ?? 0) > monotonicMs()
      if (isResting || line.waiting.length >= mostWaiting)
        return void setImmediate(guarded('upstream', () => answer(silence(name), [])))
      const finish = (error: NodeJS.ErrnoException | null, addresses: readonly Address[]): void => {
        running -= 1
        line.running -= 1
        if (line.running === 0 && line.waiting.length === 0) lines.delete(owner)
        noteOutcome(name, error?.code === 'ETIMEOUT')
        start()
        answer(error, addresses)
      }
      line.waiting.push(() => {
        running += 1
        line.running += 1
        ask(name, guarded('upstream', finish))
      })
      lines.set(owner, line)
      start()
    },
  }
}

const silence = (name: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`the name server of ${name} is silent`), { code: 'ETIMEOUT', hostname: name })
