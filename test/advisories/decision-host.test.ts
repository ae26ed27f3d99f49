import { Agent } from 'node:http'
import t from 'tap'
import { testShown } from '../integrate/ingress/examples.ts'
import { type Call, call } from '../support/client.ts'
import { startTestWorld } from '../support/world.ts'
import { type AskProxy, startForgeryFixture } from './decision-forgeries.ts'

const { gateway, testForgeries } = await startForgeryFixture(t, await startTestWorld(t))

const agent = new Agent({ keepAlive: true })
t.teardown(() => agent.destroy())

/** The call of a proxy that passes all of a client's headers on and overwrites none but its own. */
const tellAs =
  (words: (call: Call & { headers: Readonly<Record<string, string>> }) => Readonly<Record<string, string>>): AskProxy =>
  async (request) => {
    const { host: _, ...passed } = request.headers
    const told = words(request)
    const headers = { ...passed, ...told }
    return (await call(gateway.decision, { path: '/authorize', headers, agent })).status
  }

// oauth2-proxy CVE-2026-40575 has the same for the path: a header of the other family chose what was judged.
t.test('a proxy’s own words name the host, whatever a client adds', async (t) => {
  for (const [name, ask] of Object.entries({
    'as Traefik asks': tellAs(({ method = '', path, headers }) => ({
      host: 'sallyport:8081',
      ...{ 'x-forwarded-method': method, 'x-forwarded-uri': path, 'x-forwarded-host': headers.host ?? '' },
    })),
    'as Caddy asks': tellAs(({ method = '', path, headers: { host = '' } }) => ({
      ...{ 'x-forwarded-method': method, 'x-forwarded-uri': path, 'x-forwarded-host': host, host },
    })),
    'as nginx asks': tellAs(({ method = '', path, headers: { host = '' } }) => ({
      ...{ 'x-original-method': method, 'x-original-uri': path, host },
    })),
  }))
    await t.test(name, (t) => testForgeries(t, ask))
})

testShown(t, 'haproxy.md', ['haproxy-decision.cfg'])
