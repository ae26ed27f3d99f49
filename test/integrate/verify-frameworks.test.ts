import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { endWithThisProcess } from '../support/end-with-this-process.ts'
import { startTestGateway } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

/** Runs an example as its reader would, on a free port. */
async function startExample(t: Test, name: string, jwksUrl: string): Promise<string> {
  const file = fileURLToPath(new URL(`../../examples/${name}.js`, import.meta.url))
  const child = spawn(process.execPath, [file], {
    // No other variable of this machine may change what the example does.
    env: { PATH: process.env.PATH, PORT: '0', SALLYPORT_JWKS: jwksUrl },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  endWithThisProcess(child)
  const ended = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const failure = ended.then(([code]) => Promise.reject(new Error(`${name} ended with ${code}`)))
  failure.catch(() => undefined)
  const [url] = await Promise.race([once(createInterface(child.stdout), 'line'), failure])
  return url
}

/** The header that the gateway would send to the backend of a path. */
async function askIdentity(uri: string): Promise<Record<string, string>> {
  const headers = { ...member, 'x-original-method': 'GET', 'x-original-uri': uri }
  const { headers: pinned } = await call(world.decision, { path: '/authorize', headers })
  return { 'x-gateway-identity': String(pinned['x-gateway-identity']) }
}

const jwksUrl = `${world.admin}/.well-known/jwks.json`

for (const name of ['express', 'fastify'])
  t.test(`the example with ${name}`, async (t) => {
    const url = await startExample(t, name, jwksUrl)

    t.test('answers the caller that the gateway names', async (t) => {
      const { status, json } = await call(url, { path: '/datasets', headers: await askIdentity('/datasets') })
      t.equal(status, 200)
      const organization = { role: 'org-member' }
      t.match(json(), { user: { id: world.users.member.id }, organization, mayWrite: false })
    })

    t.test('refuses a request that came past the gateway, or whose header is for another backend', async (t) => {
      for (const headers of [{}, { 'x-gateway-identity': 'forged' }, await askIdentity('/v1/files')])
        t.equal((await call(url, { path: '/datasets', headers })).status, 401)
    })

    t.test('says 503 where no keys can be fetched', async (t) => {
      const lost = await startExample(t, name, 'http://127.0.0.1:1/')
      t.equal((await call(lost, { path: '/datasets', headers: await askIdentity('/datasets') })).status, 503)
    })

    t.test('holds a bound header to its target', async (t) => {
      const platform = { url, bind: true }
      const gateway = await startTestGateway(t, { world, upstreams: { platform } })
      const bound = await startExample(t, name, `${gateway.admin}/.well-known/jwks.json`)
      const headers = { ...member, 'x-original-method': 'GET' }
      for (const [target, status] of [
        ['/datasets', 200],
        ['/datasets?page=2', 401],
      ] as const) {
        const asked = { path: '/authorize', headers: { ...headers, 'x-original-uri': target } }
        const { headers: pinned } = await call(gateway.decision, asked)
        const identity = { 'x-gateway-identity': String(pinned['x-gateway-identity']) }
        t.equal((await call(bound, { path: '/datasets', headers: identity })).status, status, target)
      }
    })
  })
