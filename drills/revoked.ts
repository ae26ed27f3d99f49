import type { Account, Population } from '../test/support/population.ts'
import type { Finding } from './drill.ts'
import type { DrillFixture } from './fixture.ts'

/** Keeps the population for `findRevoked`. */
export const keepAccount = ({ notes }: DrillFixture, population: Population): void => {
  notes.set('population', population)
}

/** Work of a drill between the steps of `findRevoked`. */
export type Steps = Readonly<{
  /** The token is in the database. */
  whenAdded?: () => Promise<unknown>
  /** The gateway has accepted the token, which is revoked next. */
  whenTaken?: () => Promise<unknown>
}>

/** Uses a new token, revokes it in the database, and measures until it is refused. */
export async function findRevoked(
  { notes }: DrillFixture,
  origin: string,
  withinMs: number,
  { whenAdded, whenTaken }: Steps = {},
): Promise<readonly Finding[]> {
  const { addAccount, writer } = notes.get('population') as Population
  const account = await addAccount('to-be-revoked')
  await whenAdded?.()
  const ask = async ({ headers }: Account): Promise<number> => {
    const answer = await fetch(`${origin}/datasets`, { headers })
    await answer.arrayBuffer()
    return answer.status
  }
  const known = await ask(account)
  await whenTaken?.()
  await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
  const revokedMs = performance.now()
  let tookMs = 0
  for (let status = known; status === 200 && tookMs < 10 * withinMs; tookMs = performance.now() - revokedMs)
    status = await ask(account)
  return [
    { check: 'a new token is taken', seen: String(known), limit: '200', isMet: known === 200 },
    {
      check: 'a revoked token is refused after',
      seen: `${tookMs.toFixed(0)} ms`,
      limit: `<= ${withinMs} ms`,
      isMet: tookMs <= withinMs,
    },
  ]
}
