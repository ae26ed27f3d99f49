import type { HearServer } from '../support/tcp-wire.ts'

/**
 * Counts the statements that a PostgreSQL server completes, on every connection of a proxy. The one that listens is left
 * out, since it asks for the room of the queue now and then.
 */
export type StatementCounter = Readonly<{
  hearServer: HearServer
  /** All of them, or those of one command: `INSERT`. */
  count: (command?: string) => number
  /**
   * The longest time since that moment (`performance.now()`) without a proof that changes arrive. Near 900 ms the
   * caches expire, and a gateway rightly asks anew.
   */
  longestSilenceMs: (sinceMs: number) => number
}>

/** CommandComplete: each statement ends in one, `begin` and `commit` too. */
const commandComplete = 'C'.charCodeAt(0)

/** Without a statement before it, it is the answer to a lone Sync: what the gateway proves its connection with. */
const readyForQuery = 'Z'.charCodeAt(0)

export function countStatements(): StatementCounter {
  const rests = new Map<number, Buffer>()
  const busy = new Set<number>()
  const provenAtMs: number[] = []
  const commands: Readonly<{ name: string; index: number }>[] = []
  const listening = new Set<number>()
  const hear = (message: Buffer, index: number): void => {
    const type = message[0]
    if (type === commandComplete) {
      // `INSERT 0 1`, behind letter and length.
      const name = message.toString('latin1', 5).split(/[ \0]/)[0] ?? ''
      commands.push({ name, index })
      if (name === 'LISTEN') listening.add(index)
      busy.add(index)
    } else if (type === readyForQuery) {
      const isLone = !busy.delete(index)
      if (isLone || listening.has(index)) provenAtMs.push(performance.now())
    }
  }
  return {
    hearServer: (bytes, { index }) => {
      let rest = Buffer.concat([rests.get(index) ?? Buffer.alloc(0), bytes])
      // A message is a letter and a length, which counts itself but not the letter.
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        const end = rest.readUInt32BE(1) + 1
        hear(rest.subarray(0, end), index)
        rest = rest.subarray(end)
      }
      rests.set(index, rest)
      return 'pass'
    },
    count: (command) =>
      commands.filter(({ name, index }) => !listening.has(index) && (command === undefined || name === command)).length,
    longestSilenceMs: (sinceMs) => {
      const last = provenAtMs.findLast((atMs) => atMs <= sinceMs) ?? sinceMs
      const moments = [last, ...provenAtMs.filter((atMs) => atMs > sinceMs), performance.now()]
      return Math.max(...moments.slice(1).map((atMs, index) => atMs - (moments[index] ?? atMs)))
    },
  }
}
