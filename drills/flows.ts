import { randomInt } from 'node:crypto'
import type { World } from '../demo/world.ts'
import { formatToken, makeSecret } from '../gateway/stages/endpoints/token-secret.ts'
import type { Owner } from '../test/support/owner.ts'
import { populate } from '../test/support/population.ts'
import { bearer, oauth } from '../test/support/world.ts'

/** One kind of request, sent again and again. */
export type Flow = Readonly<{
  /** Requests a second, at a rate of 200 of all flows. */
  weight: number
  path: string
  /** The method of the next request; GET if it is absent. */
  method?: () => string
  /** The headers of the next request. */
  headers: () => Readonly<Record<string, string>>
  /** The statuses while everything is well. */
  usual: readonly number[]
  /** Whether it must never reach the upstream, or be answered with 2xx. */
  isForbidden: boolean
}>

export type FlowName = 'public' | 'anonymous' | 'session' | 'token' | 'unknown' | 'revoked' | 'forged' | 'newcomer'

export type Flows = Readonly<Record<FlowName, Flow>>

/** A flow for each kind of caller, good and bad. There are tokens for `newcomers` first logins. */
export async function prepareFlows(owner: Owner, world: World['description'], newcomers: number): Promise<Flows> {
  const mint = async (sub: string): Promise<string> => {
    const body = JSON.stringify({ sub, email: `${sub}@demo.example` })
    const { jwt } = (await (await fetch(world.oidc.mintUrl, { method: 'POST', body })).json()) as { jwt: string }
    return jwt
  }
  const { addAccount, writer } = await populate(owner, world)
  const revoked = await addAccount('revoked')
  await writer.query('delete from auth_access_tokens where id = $1', [revoked.tokenId])
  const waiting: string[] = []
  for (let count = 0; count < newcomers; count++) waiting.push(await mint(`newcomer-${count}`))
  const known = world.users.owner.jwt
  return {
    public: { weight: 80, path: '/status', headers: () => ({}), usual: [200], isForbidden: false },
    anonymous: { weight: 30, path: '/datasets', headers: () => ({}), usual: [401], isForbidden: true },
    session: { weight: 40, path: '/datasets', headers: () => oauth({ jwt: known }), usual: [200], isForbidden: false },
    token: {
      weight: 30,
      path: '/datasets',
      headers: () => bearer(world.serviceAccounts.robot.apiSecret),
      usual: [200],
      isForbidden: false,
    },
    unknown: {
      weight: 8,
      path: '/datasets',
      headers: () => bearer(formatToken(randomInt(1e6, 1e9), makeSecret(randomInt).secret)),
      usual: [401],
      isForbidden: true,
    },
    revoked: { weight: 5, path: '/datasets', headers: () => revoked.headers, usual: [401], isForbidden: true },
    forged: {
      weight: 5,
      path: '/datasets',
      headers: () => oauth({ jwt: forge(known) }),
      usual: [401],
      isForbidden: true,
    },
    newcomer: {
      weight: 2,
      path: '/public/x',
      headers: () => oauth({ jwt: waiting.shift() ?? known }),
      usual: [200],
      isForbidden: false,
    },
  }
}

/** Claims another user under the old signature. */
function forge(jwt: string): string {
  const [head, , signature] = jwt.split('.')
  const claims = { ...JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()), sub: 'demo-admin' }
  return [head, Buffer.from(JSON.stringify(claims)).toString('base64url'), signature].join('.')
}
