import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { type Ended, runCommand } from '../support/command-line.ts'
import { startTestGateway } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)

async function check(
  t: Test,
  admin: Readonly<{ host: string; port: number }>,
  ...options: readonly string[]
): Promise<Ended> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const configuration = {
    listeners: { admin },
    database: { url: 'postgres://user:hunter2@127.0.0.1:1/nowhere' },
    issuers: [{ issuer: world.oidc.issuer, audience: 'sallyport-demo' }],
    identity: { keys: ['file:identity.pem'] },
    upstreams: {},
  }
  writeFileSync(join(directory, 'gateway.yaml'), JSON.stringify(configuration))
  writeFileSync(join(directory, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  return runCommand(['healthcheck', '--config', 'gateway.yaml', ...options], { cwd: directory })
}

const portOf = (url: string): number => Number(new URL(url).port)

/** Another program listens on the admin port. */
async function startStranger(t: Test, answer: RequestListener): Promise<Readonly<{ host: string; port: number }>> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { host: '127.0.0.1', port }
}

t.test('healthcheck ends with 0 for a gateway that is ready, also by the address of every interface', async (t) => {
  const port = portOf(world.admin)
  const ends = await Promise.all(['127.0.0.1', '0.0.0.0', 'localhost'].map((host) => check(t, { host, port })))
  for (const { code, stdout, stderr } of ends) {
    t.same([code, stderr], [0, ''])
    t.match(stdout, /^ready: .*database ok/)
  }
  const { code, stdout } = await check(t, { host: '127.0.0.1', port }, '--json')
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { status: 'ready', checks: { database: 'ok', policy: 'ok' } })
})

t.test('a gateway whose database is down is not ready, and alive', async (t) => {
  const gateway = await startTestGateway(t, {})
  const admin = { host: '127.0.0.1', port: portOf(gateway.admin) }
  const { code, stdout, stderr } = await check(t, admin)
  t.same([code, stdout], [1, ''])
  t.match(stderr, /^sallyport: not ready: .*database failing.*log/)
  t.notMatch(stderr, /\n\s+at |hunter2/)
  const told = await check(t, admin, '--json')
  t.equal(told.code, 1)
  t.match(JSON.parse(told.stdout), { status: 'unavailable', checks: { database: 'failing' } })
  t.match(await check(t, admin, '--live'), { code: 0, stdout: 'alive\n' })
})

t.test('healthcheck ends with 1 where no gateway runs, and says what to look at', async (t) => {
  const { code, stderr } = await check(t, { host: '127.0.0.1', port: 1 })
  t.equal(code, 1)
  t.match(stderr, /^sallyport: no answer from http:\/\/127\.0\.0\.1:1\/readyz in time\. Check that the gateway runs/)
})

t.test('an answer that does not come, or does not end, is waited for no longer than asked', async (t) => {
  const silent = await startStranger(t, () => undefined)
  const endless = await startStranger(t, (_, response) => void response.writeHead(200).write('{"status":'))
  for (const admin of [silent, endless]) {
    const { code, stderr } = await check(t, admin, '--timeout-ms', '300')
    t.equal(code, 1)
    t.match(stderr, /no answer from/)
  }
})

t.test('another program at its port is not taken for it', async (t) => {
  const answers: readonly RequestListener[] = [
    (_, response) => response.end('<html>ready</html>'),
    (_, response) => response.end('{"checks":{}}'),
    (_, response) => response.writeHead(302, { location: `${world.admin}/readyz` }).end(),
    (_, response) => response.writeHead(503).end('{"status":"ready"}'),
  ]
  const ends = await Promise.all(answers.map(async (answer) => check(t, await startStranger(t, answer))))
  for (const [index, { code }] of ends.entries()) t.equal(code, 1, String(answers[index]))
})

t.test('an unusable address or time-out is bad usage', async (t) => {
  const { code, stderr } = await check(t, { host: '127.0.0.1', port: 0 })
  t.equal(code, 2)
  t.match(stderr, /listeners\.admin\.port is 0/)
  const patiences = ['0', '-1', '1e3', 'soon'].map((text) => `--timeout-ms=${text}`)
  const ends = await Promise.all(patiences.map((option) => check(t, { host: '127.0.0.1', port: 1 }, option)))
  for (const [index, { code }] of ends.entries()) t.equal(code, 2, patiences[index] ?? '')
})
