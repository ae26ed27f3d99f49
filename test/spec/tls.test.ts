import { X509Certificate } from 'node:crypto'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConnectionOptions } from 'node:tls'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { startGateway } from '../../gateway/run/boot/gateway.ts'
import { type Authority, createAuthority, type Issued, ownNames, testCertificates } from '../support/certificates.ts'
import { call, callRaw } from '../support/client.ts'
import { openRoute, startRawUpstream, startTestGateway, until, writeConfiguration } from '../support/gateway.ts'
import { callSecurely, curl, openSecureClient, toSecure } from '../support/secure-client.ts'

const closedRoute = { ...openRoute, id: 'closed', match: { path: '/closed' }, access: 'authenticated' }

const get = 'GET /open HTTP/1.1\r\nHost: h\r\n\r\n'

type Options = Readonly<{
  tls?: Readonly<Record<string, unknown>>
  trustedProxies?: readonly string[]
  clientCa?: string
}>

/** A gateway with TLS on the public listener; the test may rewrite its certificate files. */
async function start(t: Test, authority: Authority, { tls, trustedProxies = [], clientCa }: Options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-tls-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const present = ({ cert, key }: Pick<Issued, 'cert' | 'key'>, ca = clientCa): void => {
    const texts = { 'tls.crt': cert, 'tls.key': key, ...(ca !== undefined && { 'ca.crt': ca }) }
    for (const [name, text] of Object.entries(texts)) {
      writeFileSync(join(folder, `.${name}`), text)
      renameSync(join(folder, `.${name}`), join(folder, name))
    }
  }
  present(authority.issue(ownNames))
  const upstream = await startRawUpstream(t, (socket, soFar) => {
    if (soFar.endsWith('\r\n\r\n')) socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen')
  })
  const place = { host: '127.0.0.1', port: 0 }
  const files = { cert: `file:${folder}/tls.crt`, key: `file:${folder}/tls.key` }
  const own = { ...files, ...(clientCa !== undefined && { clientCa: `file:${folder}/ca.crt` }), ...tls }
  const gateway = await startTestGateway(t, {
    routes: [openRoute, closedRoute],
    upstreams: { platform: { url: upstream.url } },
    settings: { trustedProxies, listeners: { public: { ...place, tls: own }, decision: place, admin: place } },
  })
  const metric = async (name: string): Promise<number> => {
    const { text } = await call(gateway.admin, { path: '/metrics' })
    return Number(
      text
        .split('\n')
        .find((line) => line.startsWith(name))
        ?.split(' ')
        .at(-1),
    )
  }
  return { gateway, upstream, present, metric, url: toSecure(gateway.public) }
}

/** Whether a handshake succeeds, and the certificate in it. */
async function shake(t: Test, url: string, options: ConnectionOptions): Promise<string> {
  const client = await openSecureClient(t, url, options)
  const presented = client.secure.getPeerX509Certificate()
  client.secure.destroy()
  return presented?.serialNumber ?? ''
}

const serialOf = ({ cert }: Issued): string => new X509Certificate(cert).serialNumber

testCertificates(t, 'TLS towards clients', async (t) => {
  const authority = createAuthority(t)
  const ca = authority.cert

  await t.test('requests come in by TLS, as HTTP/1.1, and backends hear that they did', async (t) => {
    const { url, upstream } = await start(t, authority)
    const answer = await curl(`${url}/open`, '--cacert', authority.certFile, '-H', 'X-Forwarded-Proto: http')
    t.match(answer, { code: 0, status: 200, version: '1.1', text: 'seen' })
    t.match(upstream.received()[0], /^x-forwarded-proto: https\r$/m)
    t.equal((await curl(`${url}/open`)).code, 60, 'curl does not know the authority by itself')
    const mocked = await curl(`${url.replace('127.0.0.1', 'localhost')}/open`, '--cacert', authority.certFile)
    t.equal(mocked.status, 200)
  })

  await t.test('the scheme is what a trusted proxy says of its client, else that of its own connection', async (t) => {
    const { url, upstream } = await start(t, authority, { trustedProxies: ['127.0.0.1'] })
    await callSecurely(url, '/open', { ca }, { headers: { 'x-forwarded-proto': 'http' } })
    await callSecurely(url, '/open', { ca })
    const protos = upstream
      .received()
      .join('')
      .match(/^x-forwarded-proto: .*$/gm)
    t.same(
      protos?.map((line) => line.trim()),
      ['x-forwarded-proto: http', 'x-forwarded-proto: https'],
    )
  })

  await t.test('TLS below 1.2 is refused, 1.2 where 1.3 is demanded, and HTTP/2 everywhere', async (t) => {
    const usual = await start(t, authority)
    const strict = await start(t, authority, { tls: { minVersion: 'TLSv1.3' } })
    const old = { ca, minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
    await t.rejects(shake(t, usual.url, old))
    await t.resolves(shake(t, usual.url, { ca, maxVersion: 'TLSv1.2' }))
    await t.rejects(shake(t, strict.url, { ca, maxVersion: 'TLSv1.2' }))
    await t.resolves(shake(t, strict.url, { ca }))
    await t.rejects(shake(t, usual.url, { ca, ALPNProtocols: ['h2'] }))
    await t.rejects(shake(t, usual.url, { ca, maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA' }), 'no weak cipher')
    await until(() => usual.metric('sallyport_connections_open{listener="public"}').then((open) => open === 0), 'none')
  })

  await t.test('plain HTTP at the TLS port is dropped', async (t) => {
    const { gateway, upstream, metric } = await start(t, authority)
    t.notMatch(await callRaw(gateway.public, get), /HTTP\/1\.1 [12]/)
    t.same(upstream.received(), [])
    t.equal(await metric('sallyport_connections_dropped_total{listener="public",reason="handshake"}'), 1)
  })

  await t.test('a new certificate is presented, and open connections stay', async (t) => {
    const { url, present, metric } = await start(t, authority)
    const client = await openSecureClient(t, url, { ca })
    client.send(get)
    await client.until(/seen$/)
    const next = authority.issue(ownNames, 9)
    present(next)
    const serial = serialOf(next)
    await until(async () => (await shake(t, url, { ca })) === serial, 'the new certificate', 15_000)
    client.send(get)
    await client.until(/seen[\s\S]*seen$/)
    const endsAt = await metric('sallyport_tls_certificate_not_after_seconds{listener="public"}')
    t.ok(Math.abs(endsAt - Date.now() / 1_000 - 9 * 86_400) < 120)
  })

  await t.test('a bad certificate changes nothing, and is told of until it is mended', async (t) => {
    const { url, present, metric } = await start(t, authority)
    const success = () => metric('sallyport_tls_reload_success{listener="public"}')
    t.equal(await success(), 1)
    const before = await shake(t, url, { ca })
    const [one, other] = [authority.issue(ownNames), authority.issue(ownNames)]
    let inUse = before
    for (const bad of [
      { ...one, key: other.key },
      { ...one, cert: 'no certificate' },
      { ...one, key: '' },
    ]) {
      present(bad)
      await until(async () => (await success()) === 0, 'the metric', 15_000)
      t.equal(await shake(t, url, { ca }), inUse)
      present(one)
      await until(async () => (await success()) === 1, 'the metric', 15_000)
      t.equal(await shake(t, url, { ca }), serialOf(one))
      inUse = serialOf(one)
    }
  })

  await t.test('a required client certificate keeps out clients without one, or with another’s', async (t) => {
    const clients = createAuthority(t)
    const { url, upstream } = await start(t, authority, { clientCa: clients.cert })
    const [known, foreign] = [clients.issue(['DNS:client']), createAuthority(t).issue(['DNS:client'])]
    const by = ({ certFile, keyFile }: Issued) => ['--cacert', authority.certFile, '--cert', certFile, '--key', keyFile]
    t.match(await curl(`${url}/open`, ...by(known)), { code: 0, status: 200 })
    t.equal((await curl(`${url}/closed`, ...by(known))).status, 401, 'it is no credential')
    const arrived = upstream.received().length
    t.equal((await curl(`${url}/open`, '--cacert', authority.certFile)).status, 0)
    t.equal((await curl(`${url}/open`, ...by(foreign))).status, 0)
    t.equal((await curl(`${url}/open`, ...by(clients.issue(['DNS:client'], -1)))).status, 0, 'nor with an old one')
    t.equal(upstream.received().length, arrived)
  })

  await t.test('an optional certificate that does not verify is refused anyway', async (t) => {
    const clients = createAuthority(t)
    const tls = { clientCertificates: 'optional' }
    const { url, upstream, metric } = await start(t, authority, { tls, clientCa: clients.cert })
    const by = ({ cert, key }: Issued) => ({ ca, cert, key })
    t.equal((await callSecurely(url, '/open', { ca })).status, 200)
    t.equal((await callSecurely(url, '/open', by(clients.issue(['DNS:client'])))).status, 200)
    const arrived = upstream.received().length
    await t.rejects(callSecurely(url, '/open', by(createAuthority(t).issue(['DNS:client']))))
    t.equal(upstream.received().length, arrived)
    t.equal(await metric('sallyport_connections_dropped_total{listener="public",reason="handshake"}'), 1)
  })

  await t.test('a session that was agreed on under another authority of clients is not resumed', async (t) => {
    const [old, fresh] = [createAuthority(t), createAuthority(t)]
    const { url, present } = await start(t, authority, { clientCa: old.cert })
    const { cert, key } = old.issue(['DNS:client'])
    const by = { ca, cert, key, maxVersion: 'TLSv1.2' } as const
    const first = await openSecureClient(t, url, by)
    const session = first.secure.getSession()
    const again = await openSecureClient(t, url, { ...by, ...(session && { session }) })
    t.ok(again.secure.isSessionReused(), 'as it is while nothing changes')
    present(authority.issue(ownNames), fresh.cert)
    const newcomer = fresh.issue(['DNS:client'])
    await until(
      () =>
        callSecurely(url, '/open', { ca, cert: newcomer.cert, key: newcomer.key }).then(
          ({ status }) => status === 200,
          () => false,
        ),
      'the new authority',
      15_000,
    )
    const late = await openSecureClient(t, url, { ...by, ...(session && { session }) }).catch(() => undefined)
    late?.send(get)
    t.notMatch((await late?.closed()) ?? '', /HTTP/)
    first.send(get)
    t.match(await first.until(/seen$/), /200/, 'an open connection stays open')
  })
})

testCertificates(t, 'certificates that no listener can use are reported at the start', async (t) => {
  const authority = createAuthority(t)
  const [one, other] = [authority.issue(ownNames), authority.issue(ownNames)]
  const place = { host: '127.0.0.1', port: 0 }
  const load = async (tls: Readonly<Record<string, string>>) => {
    const file = writeConfiguration(t, {
      settings: { listeners: { public: place, decision: { ...place, tls }, admin: place } },
    })
    await startGateway(loadConfiguration(file, {}))
  }
  const good = { cert: one.cert, key: one.key }
  const cases: readonly (readonly [tls: Readonly<Record<string, string>>, RegExp])[] = [
    [{ ...good, key: other.key }, /decision\.tls: cert and key do not belong together/],
    [{ ...good, cert: 'x' }, /decision\.tls: cert holds no certificate in PEM/],
    [{ ...good, key: 'x' }, /decision\.tls: key holds no private key/],
    [{ ...good, clientCa: 'x' }, /decision\.tls: clientCa holds no certificate/],
    [{ ...good, clientCertificates: 'required' }, /clientCa/],
    [{ ...good, minVersion: 'TLSv1.1' }, /minVersion must be one of/],
    [{ cert: one.cert }, /key/],
    [{ ...good, cert: 'file:/no/such.pem' }, /cannot be read: ENOENT/],
  ]
  for (const [tls, message] of cases) {
    const error = await load(tls).catch((error: Error) => error)
    t.match(JSON.stringify(error), message)
    t.notMatch(JSON.stringify(error), one.key.split('\n')[1] ?? '', 'and quotes no key')
  }
})
