import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair } from 'jose'
import t, { type Test } from 'tap'
import { tellSteps } from '../../demo/demo.ts'
import { until } from '../support/gateway.ts'
import { runServe } from '../support/serve.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { startTestWorld } from '../support/world.ts'

const { publicKey } = await generateKeyPair('ES256')
const jwk = { ...(await exportJWK(publicKey)), kid: 'only', alg: 'ES256', use: 'sig' }

/** An issuer that takes questions and answers none of them until it is woken. */
async function startSleepingIssuer(t: Test) {
  const held: (() => void)[] = []
  let isAwake = false
  const server = createServer(({ url }, response: ServerResponse) => {
    const answer = url === '/keys' ? { keys: [jwk] } : { issuer: origin, jwks_uri: `${origin}/keys` }
    const respond = () => void response.end(JSON.stringify(answer))
    if (isAwake) respond()
    else held.push(respond)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  const wake = (): void => {
    isAwake = true
    for (const respond of held) respond()
  }
  return { issuer: origin, wake }
}

t.test('a gateway says every few seconds what its start waits for, until it is ready', async (t) => {
  const world = await startTestWorld(t)
  const url = new URL(world.databaseUrl)
  const proxy = await startTcpProxy(t, { host: url.hostname, port: Number(url.port) })
  proxy.refuse()
  url.port = String(proxy.port)
  const { issuer, wake } = await startSleepingIssuer(t)
  const behind = { databaseUrl: url.href, oidc: { ...world.oidc, issuer } }
  const all = [1, 2].map((workers) => runServe(t, { world: behind, settings: { workers } }))
  const find = (serve: (typeof all)[number], message: string) => serve.log().filter(({ msg }) => msg === message)
  for (const serve of all) {
    await until(() => find(serve, 'gateway not ready').length >= 2, 'two lines', 60_000)
    const [first, second] = find(serve, 'gateway not ready')
    t.ok(second.waitedMs - first.waitedMs < 20_000, 'every few seconds', { first, second })
    t.match(second, {
      level: 'warn',
      missing: [/^database: database\.url: .*; start it, or mend/, /^schema/, `issuers: ${issuer} has given no keys`],
    })
  }
  proxy.accept()
  wake()
  for (const serve of all) {
    await until(() => find(serve, 'gateway ready').length > 0, 'readiness', 60_000)
    t.equal(find(serve, 'gateway ready').length, 1)
    t.ok(find(serve, 'gateway ready')[0].waitedMs > 3_000)
    if (url.password !== '') t.notOk(serve.stdout().includes(url.password), 'no password is in it')
  }
})

t.test('the demo says at each step what it does, and again while the step lasts', async (t) => {
  const said: string[] = []
  const steps = tellSteps((sentence) => said.push(sentence), 5)
  steps.begin('Starting a database …')
  await until(() => said.length >= 3, 'two more lines')
  t.equal(said[0], 'Starting a database …')
  t.match(said[1], /^Starting a database … \d+ s$/)
  steps.begin('Starting the gateway …')
  steps.end()
  const before = said.length
  t.equal(said.at(-1), 'Starting the gateway …')
  await new Promise((resolve) => setTimeout(resolve, 30))
  t.equal(said.length, before, 'nothing more once it has started')
})

t.test('npm start says what it does even while a step keeps its thread busy', async (t) => {
  const words = `import { runStep } from ${JSON.stringify(new URL('../../scripts/install.js', import.meta.url).href)}
    import { spawnSync } from 'node:child_process'
    runStep('Compiling …', () => spawnSync('sleep', ['2']), 100)`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', words], { encoding: 'utf8' })
  t.match(stderr, /^Compiling …\nCompiling … \d s\nCompiling … \d s\n/)
  t.equal(stdout, '')
})
