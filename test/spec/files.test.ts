import { createHash, randomBytes } from 'node:crypto'
import t, { type Test } from 'tap'
import type { Answer, JsonValue } from '../support/client.ts'
import { openRawClient, until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = oauth(world.users.member)

const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const mebibyte = 1024 * 1024

const boundary = 'a boundary'
const formType = `multipart/form-data; boundary="${boundary}"`

/** A form as browsers and SDKs write it, with one file. */
const writeForm = (content: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n`),
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="träge.bin"\r\n` +
        'Content-Type: application/octet-stream\r\n\r\n',
    ),
    content,
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ])

const upload = (content: Buffer, headers: Readonly<Record<string, string>> = member): Promise<Answer> =>
  world.call({
    method: 'POST',
    path: '/v1/files',
    headers: { ...headers, 'content-type': formType },
    body: writeForm(content),
  })

for (const framing of ['a length', 'chunks'])
  t.test(`an upload of 32 MiB with ${framing} streams: its first bytes arrive before the last are sent`, async (t) => {
    await world.clearRecorder()
    const content = randomBytes(32 * mebibyte)
    const form = writeForm(content)
    const isChunked = framing === 'chunks'
    const client = await openRawClient(t, world.public)
    const head = `POST /v1/files HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${world.users.member.jwt}\r\n`
    const lines = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${form.length}`
    client.send(`${head}Content-Type: ${formType}\r\n${lines}\r\n\r\n`)
    const send = (bytes: Buffer): void => {
      if (isChunked) client.send(`${bytes.length.toString(16)}\r\n`)
      client.send(bytes)
      if (isChunked) client.send('\r\n')
    }
    send(form.subarray(0, mebibyte))
    await until(async () => (await world.recorded())[0]?.bodyBytes === mebibyte, 'the first MiB at the backend')
    t.equal((await world.recorded())[0]?.bodyComplete, false)
    send(form.subarray(mebibyte))
    if (isChunked) client.send('0\r\n\r\n')
    const text = await client.until(/"status":"processed"\}\s*$/)
    t.match(text, /^HTTP\/1\.1 200 /)
    t.match(await world.recorded(), [
      { backend: 'files', bodyBytes: form.length, bodySha256: sha256(form), bodyComplete: true, aborted: false },
    ])
    t.match(JSON.parse(text.slice(text.indexOf('\r\n\r\n'))), { object: 'file', bytes: content.length })
  })

/** Objects of the Files API have no envelope. */
const isBare = (t: Test, answer: Answer, shape: JsonValue): void => {
  t.equal(answer.status, 200)
  t.match(answer.json(), shape)
  t.notOk('success' in answer.json())
}

t.test('success bodies are bare objects: a file, a list, a deletion', async (t) => {
  const created = await upload(Buffer.from('0123456789'))
  isBare(t, created, { object: 'file', bytes: 10, filename: String, purpose: 'assistants' })
  const { id } = created.json()
  isBare(t, await world.call({ path: `/v1/files/${id}`, headers: member }), { id, object: 'file' })
  isBare(t, await world.call({ path: '/v1/files', headers: member }), { object: 'list', data: Array })
  const deleted = await world.call({ method: 'DELETE', path: `/v1/files/${id}`, headers: member })
  isBare(t, deleted, { id, object: 'file', deleted: true })
})

t.test('content comes back as it went, whole and by ranges', async (t) => {
  const content = randomBytes(100_000)
  const { id } = (await upload(content)).json()
  const path = `/v1/files/${id}/content`
  const read = (lines: string, method = 'GET') =>
    world.raw(
      `${method} ${path} HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${world.users.member.jwt}\r\n${lines}Connection: close\r\n\r\n`,
    )
  const bodyOf = (text: string): Buffer => Buffer.from(text.slice(text.indexOf('\r\n\r\n') + 4), 'latin1')
  const whole = await read('')
  t.match(whole, /^HTTP\/1\.1 200 [\s\S]*\r\nAccept-Ranges: bytes\r\n/)
  t.equal(sha256(bodyOf(whole)), sha256(content))
  for (const [range, first, last] of [
    ['bytes=10-19', 10, 19],
    ['bytes=99990-', 99_990, 99_999],
    ['bytes=-1', 99_999, 99_999],
  ] as const) {
    const part = await read(`Range: ${range}\r\n`)
    t.match(part, new RegExp(`^HTTP/1.1 206 [\\s\\S]*\r\nContent-Range: bytes ${first}-${last}/100000\r\n`), range)
    t.match(part, new RegExp(`\r\nContent-Length: ${last - first + 1}\r\n`))
    t.ok(bodyOf(part).equals(content.subarray(first, last + 1)), range)
  }
  t.match(await read('Range: bytes=100000-\r\n'), /^HTTP\/1\.1 416 [\s\S]*\r\nContent-Range: bytes \*\/100000\r\n/)
  const head = await read('', 'HEAD')
  t.match(head, /^HTTP\/1\.1 200 [\s\S]*\r\nContent-Length: 100000\r\n/)
  t.equal(bodyOf(head).length, 0)
})

t.test('range and conditional headers reach the backend unchanged', async (t) => {
  await world.clearRecorder()
  const conditions = {
    Range: 'bytes=0-1, 4-5',
    'If-Range': '"v1"',
    'If-Match': '"a", W/"b"',
    'If-None-Match': '*',
    'If-Modified-Since': 'Tue, 15 Nov 1994 08:12:31 GMT',
  }
  await world.call({ path: '/v1/files', headers: { ...member, ...conditions } })
  const [seen] = await world.recorded()
  t.same(Object.fromEntries(seen?.headers.filter(([name]) => /^(?:range|if-)/i.test(name)) ?? []), conditions)
})

const parts = '--b\r\nContent-Range: bytes 0-1/10\r\n\r\n01\r\n--b--\r\n'
const answers: Readonly<Record<string, Readonly<{ status: number; headers: object; body: string }>>> = {
  'a download': {
    status: 200,
    headers: {
      'Content-Type': 'text/csv; charset=utf-8',
      'Content-Disposition': 'attachment; filename="tr\\"age.csv"; filename*=UTF-8\'\'tr%C3%A4ge.csv',
      ETag: '"v1"',
      'Last-Modified': 'Tue, 15 Nov 1994 08:12:31 GMT',
    },
    body: 'a,b\r\n',
  },
  'several ranges': { status: 206, headers: { 'Content-Type': 'multipart/byteranges; boundary=b' }, body: parts },
  'nothing new': { status: 304, headers: { ETag: '"v1"' }, body: '' },
  'a precondition that failed': { status: 412, headers: { ETag: '"v2"' }, body: '' },
  'a range that is none': { status: 416, headers: { 'Content-Range': 'bytes */10' }, body: '{"success":false}' },
  'an error of its own': { status: 404, headers: { 'Content-Type': 'application/json' }, body: '{ "success":false }' },
}
for (const [what, prepared] of Object.entries(answers))
  t.test(`${what} passes unchanged`, async (t) => {
    const headers = { ...member, 'x-demo-answer': JSON.stringify(prepared) }
    const answer = await world.call({ path: '/v1/files/file-1/content', headers })
    t.equal(answer.status, prepared.status)
    t.equal(answer.text, prepared.body)
    for (const [name, value] of Object.entries(prepared.headers))
      t.equal(answer.headers[name.toLowerCase()], value, name)
  })

t.test('the gateway’s own refusals have the envelope, and nothing of an upload is read before them', async (t) => {
  await world.clearRecorder()
  const { apiKey } = world.serviceAccounts.robot
  const refusals: readonly (readonly [number, string, Record<string, string>])[] = [
    [400, 'invalid_organization_id', { ...member, 'x-organization-id': '0' }],
    [401, 'unauthenticated', {}],
    [401, 'not_a_member', { ...member, 'x-organization-id': String(world.organizations.globex.id) }],
    [403, 'role_insufficient', oauth(world.users.client)],
    [403, 'ability_missing', bearer(apiKey)],
  ]
  for (const [status, code, headers] of refusals) {
    const answer = await upload(Buffer.alloc(10_000), headers)
    t.equal(answer.status, status, code)
    t.match(answer.json(), { success: false, message: String, error: { status, code, requestId: String } })
  }
  const unknown = await world.call({ path: '/v1/files/1/2/3', headers: member })
  t.match(unknown.json(), { success: false, error: { status: 404, code: 'route_not_found' } })
  t.same(await world.recorded(), [])
})
