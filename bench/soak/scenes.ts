import { randomInt } from 'node:crypto'
import type { World } from '../../demo/world.ts'
import { formatToken, makeSecret } from '../../gateway/stages/endpoints/token-secret.ts'
import { bearer, oauth } from '../../test/support/world.ts'

/** One request of the soak, and what is right for it. */
export type SoakRequest = Readonly<{
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  headers: Readonly<Record<string, string>>
  body?: string | Buffer
  status: number
  /** Text that the end of its answer must hold. */
  ending?: string
}>

/** Sends a request, notes what came instead of what was right, and resolves to the body. */
export type Ask = (request: SoakRequest) => Promise<string>

/** Something that clients do, in one request or a few. */
export type Scene = Readonly<{ name: string; share: number; play: (ask: Ask) => Promise<unknown> }>

const json = { 'content-type': 'application/json' }

/** Everything that the gateway does all day; a fifth of it are streams. */
export function composeScenes({
  users,
  serviceAccounts,
  organizations,
  agents,
}: World['description']): readonly Scene[] {
  const { robot, robotAdmin } = serviceAccounts
  const read = (headers: SoakRequest['headers'], status: number): SoakRequest => ({
    method: 'GET',
    path: '/datasets?page=2',
    headers,
    status,
  })
  const write = (headers: SoakRequest['headers'], status: number, bytes: number): SoakRequest => ({
    method: 'POST',
    path: '/datasets',
    headers: { ...headers, ...json },
    body: Buffer.alloc(bytes, 'x'),
    status,
  })
  const one = (name: string, share: number, compose: () => SoakRequest): Scene => ({
    name,
    share,
    play: (ask) => ask(compose()),
  })
  const tokens = `/organizations/${organizations.acme.id}/users/${robot.id}/tokens`
  return [
    one('a read by OAuth', 0.24, () => read(oauth(users.member), 200)),
    one('a read by API token', 0.2, () => read(bearer(robot.apiKey), 200)),
    one('an endpoint of the gateway', 0.04, () => ({ ...read(oauth(users.owner), 200), path: '/users/me' })),
    one('a body', 0.1, () => write(oauth(users.admin), 200, 1 + randomInt(65_536))),
    one('an unknown token', 0.05, () =>
      read(bearer(formatToken(1 + randomInt(2 ** 31 - 2), makeSecret(randomInt).secret)), 401),
    ),
    one('an expired token', 0.03, () => read(bearer(robot.expired), 401)),
    one('no credential', 0.03, () => read({}, 401)),
    one('a role that is too low', 0.06, () => write(oauth(users.member), 403, 100)),
    one('an ability that is missing', 0.04, () => write(bearer(robot.apiKey), 403, 100)),
    one('no route', 0.01, () => ({ ...read({}, 404), path: `/nowhere/${randomInt(1_000_000)}` })),
    {
      name: 'a token from its mint to its end',
      share: 0.02,
      play: async (ask) => {
        const admin = bearer(robotAdmin.apiSecret)
        const body = JSON.stringify({ scope: 'api-key' })
        const minted = await ask({ method: 'POST', path: tokens, headers: { ...admin, ...json }, body, status: 201 })
        const { data } = JSON.parse(minted) as { data: { id: number; token: string } }
        await ask(read(bearer(data.token), 200))
        await ask({ method: 'DELETE', path: `${tokens}/${data.id}`, headers: admin, status: 200 })
        await ask(read(bearer(data.token), 401))
      },
    },
    one('a stream', 0.2, () => ({
      method: 'POST',
      path: `/agent/${agents.acme}/responses`,
      headers: { ...bearer(robot.apiKey), ...json },
      body: JSON.stringify({ stream: true }),
      status: 200,
      ending: 'event: response.completed',
    })),
  ]
}

/** Draws one by its share. */
export function drawScene(scenes: readonly Scene[], draw: () => number): Scene | undefined {
  let rest = draw() * scenes.reduce((sum, { share }) => sum + share, 0)
  return scenes.find(({ share }) => {
    rest -= share
    return rest < 0
  })
}
