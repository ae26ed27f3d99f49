import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { may, pdpUrl, prepareAuthzen, record } from '../support/authzen-fixture.ts'
import { createAuthority, type Issued, ownNames, testCertificates } from '../support/certificates.ts'
import type { JsonValue } from '../support/client.ts'
import { anyPort, until } from '../support/gateway.ts'
import { openSecureClient, toSecure } from '../support/secure-client.ts'
import { runRefused, startServing } from '../support/serve.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { acme, globex } = world.organizations
const fixture = await prepareAuthzen(t, world)
const evaluators = ['reports.internal', 'spiffe://example/reports']
/** Three days on, at a signal: each certificate is good for two. */
const preload = `let aheadMs = 0
process.on('SIGUSR2', () => { aheadMs = 3 * 86_400_000 })
globalThis.Date = class extends Date {
  constructor(...parts) { if (parts.length > 0) super(...parts); else super(Date.now()) }
  static now() { return super.now() + aheadMs }
}`
const authzen = { url: pdpUrl, subject: 'username' }

testCertificates(t, 'programs that ask by a client certificate', async (t) => {
  const [servers, clients] = [createAuthority(t), createAuthority(t)]
  const identity = servers.issue(ownNames)
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, clients.cert)
  const tls = {
    cert: `file:${identity.certFile}`,
    key: `file:${identity.keyFile}`,
    clientCa: `file:${caFile}`,
  }
  const decision = { ...anyPort, authzen, evaluators, tls: { ...tls, clientCertificates: 'optional' } }
  const { settings } = fixture
  const listeners = { ...settings.listeners, decision }
  const serving = await startServing(t, { world, settings: { ...settings, listeners }, preload })
  const origin = toSecure(serving.decision)

  type Asked = Readonly<{ by?: Issued | undefined; headers?: Readonly<Record<string, string>>; endpoint?: string }>

  const ask = (
    question: unknown,
    { by, headers = {}, endpoint = 'evaluation' }: Asked,
  ): Promise<Readonly<{ status: number; json: JsonValue }>> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(origin)
      const request = httpsRequest(
        {
          ...{ host: hostname, port, method: 'POST', path: `/access/v1/${endpoint}`, agent: false, ca: servers.cert },
          headers: { 'content-type': 'application/json', ...headers },
          ...(by && { cert: by.cert, key: by.key }),
        },
        (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (part) => {
            text += part
          })
          response.on('end', () => resolve({ status: response.statusCode ?? 0, json: JSON.parse(text) }))
        },
      )
      request.on('error', reject)
      request.end(JSON.stringify(question))
    })
  const within = (id: number | string): Readonly<Record<string, string>> => ({ 'x-organization-id': String(id) })
  const read = (subject: string, id: string) => may(subject, 'read', record(id))
  const byName = clients.issue(['DNS:other.internal', 'DNS:reports.internal'])
  const byUri = clients.issue(['URI:spiffe://example/reports'])

  await t.test('a named program asks about each organization, and each answer keeps to one', async (t) => {
    for (const by of [byName, byUri]) {
      const rows = [
        [acme.id, 'alice', 'record-1', true],
        [acme.id, 'carol', 'record-3', false],
        [globex.id, 'carol', 'record-3', true],
        [globex.id, 'alice', 'record-1', false],
        [2147483647, 'alice', 'record-1', false],
      ] as const
      for (const [id, subject, recordId, allowed] of rows)
        t.same(
          await ask(read(subject, recordId), { by, headers: within(id) }),
          { status: 200, json: { decision: allowed } },
          `${subject} ${recordId} in ${id}`,
        )
    }
    const question = { subject: { type: 'user' }, action: { name: 'read' }, resource: record('record-3') }
    const search = (id: number) => ask(question, { by: byName, headers: within(id), endpoint: 'search/subject' })
    const found = (await search(globex.id)).json.results.map(({ id }: JsonValue) => id)
    t.ok(found.includes('carol'))
    t.same((await search(acme.id)).json, { results: [] })
  })

  await t.test('a page token is good for its program and organization alone', async (t) => {
    const question = { subject: { type: 'user' }, action: { name: 'read' }, resource: record('record-1') }
    const page = (token: string | undefined, by: Issued, id: number) =>
      ask(
        { ...question, page: { limit: 1, ...(token !== undefined && { token }) } },
        { by, headers: within(id), endpoint: 'search/subject' },
      )
    const { json } = await page(undefined, byName, acme.id)
    const token = json.page.next_token
    t.equal((await page(token, byName, acme.id)).status, 200)
    t.equal((await page(token, byUri, acme.id)).status, 400)
    t.equal((await page(token, byName, globex.id)).status, 400)
  })

  await t.test('the program names one organization', async (t) => {
    const question = read('alice', 'record-1')
    t.equal((await ask(question, { by: byName })).status, 400)
    for (const id of ['0', '-1', 'acme', '1.0'])
      t.equal((await ask(question, { by: byName, headers: within(id) })).status, 400)
    const cookie = { cookie: `current-org-id=${acme.id}` }
    t.equal((await ask(question, { by: byName, headers: cookie })).status, 400)
  })

  await t.test('no other certificate is a caller, whatever it resembles', async (t) => {
    const others: readonly (readonly [name: string, by: Issued | undefined])[] = [
      ['no certificate', undefined],
      ['another name', clients.issue(['DNS:other.internal'])],
      ['a subject alone', clients.issue(['DNS:other.internal'], 2, 'reports.internal')],
      ['the letters in capitals', clients.issue(['DNS:REPORTS.internal'])],
      ['a name below', clients.issue(['DNS:a.reports.internal'])],
      ['a wildcard over it', clients.issue(['DNS:*.internal'])],
      ['an address of mail', clients.issue(['email:reports.internal@example.com'])],
      ['the DNS name as a URI', clients.issue(['URI:reports.internal'])],
      ['the URI as a DNS name', clients.issue(['DNS:spiffe://example/reports'])],
      ['a URI that goes on', clients.issue(['URI:spiffe://example/reports/x'])],
      ['a name that hides another', clients.issue(['@alt\n[alt]\nURI.1=a:b, DNS:reports.internal, c'])],
    ]
    const question = read('alice', 'record-1')
    for (const [name, by] of others)
      for (const endpoint of ['evaluation', 'evaluations', 'search/subject', 'search/resource', 'search/action'])
        t.equal((await ask(question, { by, headers: within(acme.id), endpoint })).status, 401, `${name} ${endpoint}`)
    const foreign = createAuthority(t).issue(['DNS:reports.internal'])
    await t.rejects(ask(question, { by: foreign, headers: within(acme.id) }), 'of another authority')
    const past = clients.issue(['DNS:reports.internal'], -1)
    await t.rejects(ask(question, { by: past, headers: within(acme.id) }), 'past its end')
  })

  await t.test('a credential comes before the certificate, and bounds the answers', async (t) => {
    const question = read('carol', 'record-3')
    const token = bearer(fixture.evaluator) as Readonly<Record<string, string>>
    t.same(await ask(question, { by: byName, headers: token }), { status: 200, json: { decision: false } })
    t.equal((await ask(question, { by: byName, headers: { ...token, ...within(globex.id) } })).status, 401)
    const session = oauth(world.users.owner) as Readonly<Record<string, string>>
    t.equal((await ask(question, { by: byName, headers: { ...session, ...within(acme.id) } })).status, 403)
    const wrong = { authorization: 'Basic eDp4', ...within(globex.id) }
    t.equal((await ask(question, { by: byName, headers: wrong })).status, 401)
  })

  await t.test('the certificate opens nothing else of the listener', async (t) => {
    const client = await openSecureClient(t, origin, { ca: servers.cert, cert: byName.cert, key: byName.key })
    const original = `x-original-method: GET\r\nx-original-uri: /datasets\r\nx-organization-id: ${acme.id}\r\n`
    client.send(`GET /authorize HTTP/1.1\r\nhost: h\r\n${original}\r\n`)
    await client.until(/^HTTP\/1\.1 401 /)
  })

  await t.test('the audit and the log tell the name, refused or not', async (t) => {
    const question = read('alice', 'record-1')
    const headers = { ...within(globex.id), 'x-request-id': 'evaluator-asked' }
    await ask(question, { by: byUri, headers })
    await ask(question, { by: byUri, headers: { 'x-request-id': 'evaluator-refused' } })
    const find = (lines: readonly JsonValue[], id: string) => lines.find(({ requestId }) => requestId === id)
    await until(async () => find(serving.log(), 'evaluator-refused') !== undefined, 'the line')
    const subject = { id: 'spiffe://example/reports', kind: 'evaluator' }
    const credential = { kind: 'certificate', id: null }
    t.match(find(serving.audit(), 'evaluator-asked'), {
      ...{ listener: 'decision', outcome: 'allowed', route: 'authzen.evaluation', subject, credential },
      organizationId: globex.id,
    })
    t.match(find(serving.audit(), 'evaluator-refused'), {
      ...{ outcome: 'refused', status: 400, cause: 'organization_header_malformed', subject, credential },
      organizationId: null,
    })
    t.match(find(serving.log(), 'evaluator-asked'), {
      ...{ userId: 'spiffe://example/reports', credential: 'certificate', organizationId: globex.id },
    })
  })

  await t.test('without evaluators a certificate is not a credential', async (t) => {
    const plain = { ...anyPort, authzen, tls }
    const other = await startServing(t, {
      world,
      settings: { ...settings, listeners: { ...listeners, decision: plain } },
    })
    const client = await openSecureClient(t, toSecure(other.decision), {
      ca: servers.cert,
      cert: byName.cert,
      key: byName.key,
    })
    const organization = `x-organization-id: ${acme.id}\r\ncontent-type: application/json\r\ncontent-length: 2`
    client.send(`POST /access/v1/evaluation HTTP/1.1\r\nhost: h\r\n${organization}\r\n\r\n{}`)
    await client.until(/^HTTP\/1\.1 401 /)
  })

  await t.test('evaluators without an authority of clients, without TLS or with an odd name are refused', async (t) => {
    const { clientCa: _, ...alone } = tls
    const rows = [
      [{ authzen, evaluators, tls: alone }, /needs tls\.clientCa/],
      [{ authzen, evaluators }, /tls/],
      [{ evaluators, tls }, /authzen/],
      [{ authzen, tls, evaluators: ['CN=reports'] }, /DNS name/],
      [{ authzen, tls, evaluators: ['a, DNS:b'] }, /DNS name/],
      [{ authzen, tls, evaluators: [] }, /evaluators/],
    ] as const
    for (const [listener, words] of rows) {
      const decision = { ...anyPort, ...listener }
      const refused = await runRefused(t, { world, settings: { ...settings, listeners: { ...listeners, decision } } })
      t.equal(refused.code, 2)
      t.match(refused.stderr, words)
    }
  })

  const refusesFromNowOn = async (t: Test, by: Issued, change: () => unknown): Promise<void> => {
    const client = await openSecureClient(t, origin, { ca: servers.cert, cert: by.cert, key: by.key })
    const body = JSON.stringify(read('alice', 'record-1'))
    const head = `POST /access/v1/evaluation HTTP/1.1\r\nhost: h\r\nx-organization-id: ${acme.id}\r\n`
    const send = () =>
      client.send(`${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
    send()
    await client.until(/^HTTP\/1\.1 200 [\s\S]*"decision":true/)
    change()
    await until(() => {
      send()
      return client.text().includes('HTTP/1.1 401 ')
    }, 'the refusal')
  }

  const next = createAuthority(t)

  await t.test('a connection that outlives the authority of its certificate is a caller no more', (t) =>
    refusesFromNowOn(t, byName, () => writeFileSync(caFile, next.cert)),
  )

  await t.test('a connection that outlives its certificate is a caller no more', (t) =>
    refusesFromNowOn(t, next.issue(['DNS:reports.internal']), () => serving.child.kill('SIGUSR2')),
  )
})
