import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocalJWKSet, jwtVerify } from 'jose'
import t, { type Test } from 'tap'
import { readSigningKeys } from '../../gateway/stages/pin/signing-keys.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { call } from '../support/client.ts'
import { type Ended, runCommand } from '../support/command-line.ts'
import { startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

const mirror = createServer((request, response) => response.end(request.headers['x-gateway-identity']))
await new Promise<void>((resolve) => mirror.listen(0, '127.0.0.1', resolve))
t.teardown(() => mirror.close().closeAllConnections())
const { port } = mirror.address() as AddressInfo // a TCP listener's address is never a string

const startGateway = (t: Test, identity: Readonly<Record<string, unknown>> = {}): Promise<TestGateway> =>
  startTestGateway(t, {
    world,
    upstreams: { platform: { url: `http://127.0.0.1:${port}` } },
    settings: { identity: { keys: ['file:identity.pem'], publishOnPublicListener: true, ...identity } },
  })

const publishedBy = async (origin: string) => (await call(origin, { path: '/.well-known/jwks.json' })).json()
const kidsOf = async (file: string) =>
  (await readSigningKeys(readFileSync(file, 'utf8'), 'EdDSA')).map(({ kid }) => kid)
const publishedKids = async ({ admin }: TestGateway): Promise<readonly string[]> =>
  (await publishedBy(admin)).keys.map(({ kid }: { kid: string }) => kid)

/** Verifies one request by the keys published at that moment; resolves to the signing key. */
async function verifyOne(gateway: TestGateway): Promise<string> {
  const answer = await call(gateway.public, { path: '/public/x', headers: member })
  if (answer.status !== 200) throw new Error(`answered ${answer.status}`)
  const published = await publishedBy(gateway.admin)
  const options = { issuer: 'sallyport', audience: 'platform', algorithms: ['EdDSA', 'ES256'] }
  const { protectedHeader } = await jwtVerify(answer.text, createLocalJWKSet(published), options)
  return protectedHeader.kid ?? ''
}

/** Sends requests until it is stopped; resolves to the signing keys in order. */
function verifyContinuously(gateway: TestGateway) {
  const kids: string[] = []
  const failures: unknown[] = []
  let isStopping = false
  const run = async (): Promise<void> => {
    while (!isStopping) {
      const kid = await verifyOne(gateway).catch((error: unknown) => void failures.push(error))
      if (kid !== undefined && kids.at(-1) !== kid) kids.push(kid)
      await sleep(5)
    }
  }
  const done = run()
  return {
    last: () => kids.at(-1),
    stop: async () => {
      isStopping = true
      await done
      return { kids, failures }
    },
  }
}

const rotate = async (file: string, ...more: readonly string[]): Promise<Ended> =>
  runCommand(['keys', 'rotate', '--file', file, ...more])

const gauge = async ({ admin }: TestGateway) =>
  /^sallyport_identity_keys_reload_success (\d)$/m.exec((await call(admin, { path: '/metrics' })).text)?.[1]

t.test('keys rotate under load: no request fails, and every header verifies by the keys of its moment', async (t) => {
  const gateway = await startGateway(t)
  const [first = ''] = await kidsOf(gateway.keyFile)
  const load = verifyContinuously(gateway)
  await until(() => load.last() === first, 'the first header')

  const planned = await rotate(gateway.keyFile, '--after', '8', '--json')
  t.equal(planned.code, 0, planned.stderr)
  const { kid: second, current } = JSON.parse(planned.stdout)
  t.equal(current, first)
  await until(async () => (await publishedKids(gateway)).includes(second), 'the new key among the published')
  t.equal(load.last(), first, 'it is published before it signs')
  t.same(
    (await publishedBy(gateway.public)).keys,
    (await publishedBy(gateway.admin)).keys,
    'on the public listener too',
  )
  await until(() => load.last() === second, 'the new key’s hour', 20_000)

  const { kid: third } = JSON.parse((await rotate(gateway.keyFile, '--after', '0', '--json')).stdout)
  await until(() => load.last() === third, 'the third key, at once')
  const { kids, failures } = await load.stop()
  t.same(failures, [])
  t.same(kids, [first, second, third], 'no key comes back')
})

t.test('a withdrawn key signs nothing more, and stays published while its headers live', async (t) => {
  const gateway = await startGateway(t)
  const [leaked = ''] = await kidsOf(gateway.keyFile)
  const load = verifyContinuously(gateway)
  await until(() => load.last() === leaked, 'a header of the old key')
  const beside = `${gateway.keyFile}.fresh`
  writeFileSync(beside, generatePem('EdDSA'))
  const [fresh = ''] = await kidsOf(beside)
  renameSync(beside, gateway.keyFile)
  await until(() => load.last() === fresh, 'a header of the new key')
  const { kids, failures } = await load.stop()
  t.same(failures, [])
  t.same(kids, [leaked, fresh])
  t.same(await publishedKids(gateway), [fresh, leaked])
})

t.test('a bad key file changes nothing but the gauge, and a good one is taken again', async (t) => {
  const gateway = await startGateway(t)
  const [kid = ''] = await kidsOf(gateway.keyFile)
  const good = readFileSync(gateway.keyFile, 'utf8')
  t.equal(await gauge(gateway), '1')
  for (const bad of ['no key', generatePem('ES256')]) {
    writeFileSync(gateway.keyFile, bad)
    await until(async () => (await gauge(gateway)) === '0', 'the gauge at 0')
    t.equal(await verifyOne(gateway), kid)
    t.same(await publishedKids(gateway), [kid])
    writeFileSync(gateway.keyFile, good)
    await until(async () => (await gauge(gateway)) === '1', 'the gauge at 1')
  }
  rmSync(gateway.keyFile)
  await until(async () => (await gauge(gateway)) === '0', 'the gauge at 0 without the file')
  t.equal(await verifyOne(gateway), kid)
  writeFileSync(gateway.keyFile, generatePem('EdDSA'))
  await until(async () => (await verifyOne(gateway)) !== kid, 'the new key')
  t.equal(await gauge(gateway), '1')
})

t.test('keys in a mounted Secret are followed when the link to its folder is turned', async (t) => {
  const gateway = await startGateway(t)
  const folder = dirname(gateway.keyFile)
  const versions = ['v1', 'v2'].map((version) => {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, 'identity.pem'), generatePem('EdDSA'))
    return join(folder, version, 'identity.pem')
  })
  const turnTo = (version: string): void => {
    symlinkSync(version, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
  }
  turnTo('v1')
  symlinkSync(join('..data', 'identity.pem'), join(folder, 'link'))
  renameSync(join(folder, 'link'), gateway.keyFile)
  for (const [index, file] of versions.entries()) {
    turnTo(`v${index + 1}`)
    const [kid = ''] = await kidsOf(file)
    await until(async () => (await verifyOne(gateway)) === kid, `the key of v${index + 1}`)
  }
})

t.test('the key with the latest hour signs, in whichever of several files it stands', async (t) => {
  const inline = generatePem('EdDSA')
  const gateway = await startGateway(t, { keys: [inline, 'file:identity.pem'] })
  const [first = ''] = (await readSigningKeys(inline, 'EdDSA')).map(({ kid }) => kid)
  const [second = ''] = await kidsOf(gateway.keyFile)
  t.equal(await verifyOne(gateway), first)
  t.same(await publishedKids(gateway), [first, second])
  const text = readFileSync(gateway.keyFile, 'utf8')
  writeFileSync(gateway.keyFile, `Signs-From: ${new Date().toISOString()}\n${text}`)
  await until(async () => (await verifyOne(gateway)) === second, 'the key of the file')
  t.same(await publishedKids(gateway), [first, second])
})

t.test('a rotation says what it did, in words that hold no key, and what to do next', async (t) => {
  const file = join(t.testdir({ 'identity.pem': generatePem('ES256') }), 'identity.pem')
  const { code, stdout, stderr } = await rotate(file)
  t.same([code, stderr], [0, ''])
  t.match(
    stdout,
    /^rotated .*identity\.pem\n {2}new key +[\w-]{43}, signs from 20\S+Z\n {2}current key [\w-]{43}, signs until then\n/,
  )
  t.match(stdout, /kubectl create secret generic/)
  t.notMatch(stdout, /PRIVATE|[A-Za-z0-9+/]{60}/)
  const under = await rotate(file)
  t.match(under, { code: 1, stdout: '', stderr: /a rotation is under way: key .* signs from .*--force/ })
  const forced = JSON.parse((await rotate(file, '--force', '--after', '60', '--json')).stdout)
  t.match(forced, { algorithm: 'ES256', kid: String, current: String, dropped: [String] })
  t.match((await rotate(file, '--force', '--after', '0')).stdout, /may refuse it until it fetches them again/)
})

t.test('a rotation without a file or with a bad delay is bad usage, and of a bad file a failure', async (t) => {
  const directory = t.testdir({ bad: 'hunter2' })
  const ends = await Promise.all([
    rotate(join(directory, 'none')),
    rotate(join(directory, 'bad'), '--after', '-1'),
    rotate(join(directory, 'bad'), '--after', '1h'),
    rotate(join(directory, 'bad')),
  ])
  t.match(ends, [
    { code: 2, stderr: /none does not exist\. .*--file.*keys generate/ },
    { code: 2, stderr: /--after must be a number of seconds/ },
    { code: 2, stderr: /--after must be a number of seconds/ },
    { code: 1, stderr: /bad: block 1 is not a private key in PEM/ },
  ])
  t.notMatch(JSON.stringify(ends), /hunter2/)
})
