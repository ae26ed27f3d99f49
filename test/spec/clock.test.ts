import { decodeJwt } from 'jose'
import t from 'tap'
import { type Call, call } from '../support/client.ts'
import { startRawUpstream, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { startReplica } from '../support/replicas.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { testSteppedClock } from './stepped-clock.ts'

const world = await startTestWorld(t)
const { addAccount, writer } = await populate(t, world)
let identity = ''
const upstream = await startRawUpstream(t, (socket, soFar) => {
  identity = [...soFar.matchAll(/^x-gateway-identity: (\S+)/gim)].at(-1)?.[1] ?? ''
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}')
})

const lastIdentity = (): Readonly<{ iat: number; exp: number }> => {
  const { iat = 0, exp = 0 } = decodeJwt(identity)
  return { iat, exp }
}

const hour = 3_600

testSteppedClock(
  t,
  'a clock that is stepped forward or back changes what is in force, and nothing else',
  async (t, clock) => {
    const settings = { cluster: { staleAfterMs: 4 * hour * 1_000, networks: { allow: ['127.0.0.0/8'] } } }
    const options = { world, settings, upstreams: { platform: { url: upstream.url } } }
    const replica = await startReplica(t, options, clock.environment)
    const send = async (request: Call): Promise<number> => (await call(replica.public, request)).status
    const sessionOf = async (expiresIn: number): Promise<Call> => {
      const jwt = await world.mint({ sub: 'demo-owner', email: 'owner@demo.example', expiresIn })
      return { path: '/datasets', headers: oauth({ jwt }) }
    }
    const expectRevocation = async (when: string): Promise<void> => {
      const account = await addAccount(when)
      const use = () => send({ path: '/datasets', headers: account.headers })
      for (let warm = 0; warm < 3; warm += 1) t.equal(await use(), 200, when)
      await writer.query('delete from auth_access_tokens where id = $1', [account.tokenId])
      await until(async () => (await use()) === 401, `the refusal ${when}`, 2_000)
    }
    const [short, long] = [await sessionOf(hour), await sessionOf(3 * hour)]
    const expiring = await addAccount('expiring')
    await writer.query("update auth_access_tokens set expires_at = now() + interval '1 hour' where id = $1", [
      expiring.tokenId,
    ])
    const useExpiring: Call = { path: '/datasets', headers: expiring.headers }
    for (const request of [short, long, useExpiring]) t.equal(await send(request), 200, 'at first')
    await expectRevocation('at first')

    clock.stepBy(2 * hour)
    t.equal(await send(short), 401, 'held, and expired')
    t.equal(await send(useExpiring), 401, 'held, and expired')
    t.equal(await send(long), 200)
    await expectRevocation('after the step forward')
    t.ok(lastIdentity().iat > Date.now() / 1_000 + hour, 'headers of the new time')
    t.equal(lastIdentity().exp - lastIdentity().iat, 60)

    clock.stepBy(0)
    t.equal(await send(long), 200)
    t.equal(await send(short), 200, 'in force again')
    t.ok(lastIdentity().iat < Date.now() / 1_000 + 60, 'no header from the future')
    await expectRevocation('after the step back')

    clock.stepBy(-2 * hour)
    t.equal(await send(long), 401, 'issued in the future')
    await expectRevocation('before the start')
    t.ok(lastIdentity().iat < Date.now() / 1_000 - hour)
  },
)
