/** The distance of two names takes quadratic time, and names of policies have under 40 characters. */
const longestName = 64

export function findNearName(written: string, known: Iterable<string>): string | undefined {
  if (written.length > longestName) return undefined
  const plain = toPlain(written)
  if (plain === '') return undefined
  let nearest: string | undefined
  let least = Math.max(1, Math.floor(plain.length / 3)) + 1
  for (const name of known) {
    if (name.length > longestName) continue
    const other = toPlain(name)
    const edits = isShortened(plain, other) ? 1 : countEdits(plain, other, least)
    if (edits < least) [nearest, least] = [name, edits]
  }
  return nearest
}

export function suggestName(written: string, known: Iterable<string>): string {
  const names = [...known]
  const near = findNearName(written, names)
  return near === undefined ? `use one of ${names.join(', ') || 'none'}` : `did you mean "${near}"?`
}

const isShortened = (one: string, other: string): boolean =>
  Math.min(one.length, other.length) >= 3 && (one.startsWith(other) || other.startsWith(one))

const toPlain = (name: string): string => name.toLowerCase().replace(/[-_]/g, '')

/** Letters to add, drop, change or swap with their neighbour (optimal string alignment); at most `limit`. */
function countEdits(one: string, other: string, limit: number): number {
  if (Math.abs(one.length - other.length) >= limit) return limit
  let before: number[] = []
  let last = Array.from({ length: other.length + 1 }, (_, column) => column)
  for (let row = 1; row <= one.length; row++) {
    const current = [row]
    for (let column = 1; column <= other.length; column++) {
      const change = (last[column - 1] ?? 0) + (one[row - 1] === other[column - 1] ? 0 : 1)
      const isSwap = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1]
      const swap = isSwap ? (before[column - 2] ?? limit) + 1 : limit
      current.push(Math.min(change, swap, (last[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    if (Math.min(...current) >= limit) return limit
    before = last
    last = current
  }
  return last[other.length] ?? limit
}
