/** Longest chain of ancestors. A token with a longer one is refused. */
export const longestLine = 8

export type AncestorRow = { id: number; userId: number | null; isAlive: boolean; expiresAt: string | null }

/** A token ends with any of its ancestors (SPEC section 6). */
export const isUnbroken = (ancestors: readonly AncestorRow[]): boolean =>
  ancestors.length <= longestLine && ancestors.every(({ isAlive }) => isAlive)

export function findEnd(expiresAt: Date | null, ancestors: readonly Pick<AncestorRow, 'expiresAt'>[]): Date | null {
  let end = expiresAt
  for (const { expiresAt: text } of ancestors) {
    const at = text === null ? null : new Date(text)
    if (at !== null && (end === null || at < end)) end = at
  }
  return end
}
