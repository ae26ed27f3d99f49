import type { HearServer } from './tcp-wire.ts'

/** Counts the statements that a PostgreSQL server completes, on every connection of a proxy. */
export type StatementCounter = Readonly<{ hearServer: HearServer; count: () => number }>

/** CommandComplete: each statement ends in one, `begin` and `commit` too. */
const commandComplete = 'C'.charCodeAt(0)

export function countStatements(): StatementCounter {
  const rests = new Map<number, Buffer>()
  let count = 0
  return {
    hearServer: (bytes, { index }) => {
      let rest = Buffer.concat([rests.get(index) ?? Buffer.alloc(0), bytes])
      // A message is a letter and a length, which counts itself but not the letter.
      while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
        if (rest[0] === commandComplete) count += 1
        rest = rest.subarray(rest.readUInt32BE(1) + 1)
      }
      rests.set(index, rest)
      return 'pass'
    },
    count: () => count,
  }
}
