/** A line of tokens that were minted with one another has at most this many before its last; a longer one has ended. */
export const longestLine = 8

/** A token that another one was minted with, and its owner; `isAlive` where both are there. */
export type AncestorRow = { id: number; userId: number | null; isAlive: boolean; expiresAt: string | null }

/** Whether a token's line holds: it ends with any token that it goes back to (SPEC section 6). */
export const isUnbroken = (ancestors: readonly AncestorRow[]): boolean =>
  ancestors.length <= longestLine && ancestors.every(({ isAlive }) => isAlive)

/** When a token ends: by its own expiry or by that of any token that it goes back to. Null for never. */
export function findEnd(expiresAt: Date | null, ancestors: readonly Pick<AncestorRow, 'expiresAt'>[]): Date | null {
  let end = expiresAt
  for (const { expiresAt: text } of ancestors) {
    const at = text === null ? null : new Date(text)
    if (at !== null && (end === null || at < end)) end = at
  }
  return end
}
