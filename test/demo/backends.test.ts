import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { WebSocket } from 'ws'
import type { RecordedRequest } from '../../demo/backends/record-requests.ts'
import { startBackends } from '../../demo/backends/start-backends.ts'
import { startFairClock } from '../support/fair-clock.ts'

const backends = await startBackends()
const { urls } = backends
t.teardown(() => backends.stop())

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

/** Its pages say more of V8 than of the backends. */
const readHeldBytes = (): number => {
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

type RawEnd = Readonly<{ text: string; how: 'fin' | 'reset' }>
type RawConnection = Readonly<{ socket: Socket; text: () => string; ended: Promise<RawEnd> }>

function openRaw(url: string, request: string): RawConnection {
  const { hostname, port } = new URL(url)
  let text = ''
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  socket.write(request)
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  const ended = new Promise<RawEnd>((resolve) => {
    socket.once('end', () => resolve({ text, how: 'fin' }))
    socket.once('error', () => resolve({ text, how: 'reset' }))
  })
  return { socket, text: () => text, ended }
}

async function until<Value>(read: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  for (let tries = 0; tries < 400; tries += 1) {
    const value = await read()
    if (value !== undefined) return value
    await delay(10)
  }
  throw new Error('it never came to pass')
}

async function listRequests(): Promise<RecordedRequest[]> {
  return (await (await fetch(`${urls.recorder}/requests`)).json()) as RecordedRequest[]
}

// A path that no other test uses stands for the request in the recorder.
const makePath = (): string => `/public/${randomUUID()}`

async function findRecorded(path: string): Promise<RecordedRequest | undefined> {
  return (await listRequests()).find(({ requestLine }) => requestLine.includes(path))
}

function findClosed(path: string): Promise<RecordedRequest> {
  return until(async () => {
    const found = await findRecorded(path)
    return found?.closedAtMs == null ? undefined : found
  })
}

const sha256 = (bytes: Buffer | string): string => createHash('sha256').update(bytes).digest('hex')

/** One run of a script: the agent's path carries an id, so that the recorder can be asked about it. */
function runScript(script: unknown, operation = 'responses'): RawConnection & Readonly<{ path: string }> {
  const path = `/agent/${randomUUID()}/${operation}`
  const body = JSON.stringify({ input: 'x', stream: true, metadata: { script } })
  const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
  return { path, ...openRaw(urls.agent, `${head}Connection: close\r\n\r\n${body}`) }
}

const chunked = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`
const streamHead = /^HTTP\/1\.1 200 OK\r\nContent-Type: text\/event-stream\r\nCache-Control: no-cache\r\n/
const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4)

t.test('the recorder keeps a complete request as it came', async (t) => {
  const path = makePath()
  const before = Date.now()
  const head = `POST ${path}?a=1&&b=%zz HTTP/1.1\r\nhOsT: x\r\nX-Two: 1\r\nx-two: 2\r\nContent-Length: 5\r\n`
  const { ended } = openRaw(urls.platform, `${head}Connection: close\r\n\r\nhello`)
  const { text } = await ended
  const recorded = await findClosed(path)

  t.equal(recorded.backend, 'platform')
  t.equal(recorded.requestLine, `POST ${path}?a=1&&b=%zz HTTP/1.1`)
  const headers = [
    ['hOsT', 'x'],
    ['X-Two', '1'],
    ['x-two', '2'],
    ['Content-Length', '5'],
    ['Connection', 'close'],
  ]
  t.same(recorded.headers, headers)
  t.match(recorded, { bodySha256: sha256('hello'), bodyBytes: 5, bodyComplete: true, aborted: false })
  t.ok(recorded.startedAtMs >= before && Number(recorded.closedAtMs) >= recorded.startedAtMs)
  t.same(
    JSON.parse(bodyOf(text)),
    { method: 'POST', target: `${path}?a=1&&b=%zz`, headers, bodySha256: sha256('hello'), bodyBytes: 5 },
    'the echo says the same',
  )
})

t.test('the recorder shows a request that is still open, and then that its peer went', async (t) => {
  const path = makePath()
  const { socket } = openRaw(urls.files, `PUT ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf`)
  const open = await until(async () => {
    const found = await findRecorded(path)
    return found?.bodyBytes === 4 ? found : undefined
  })
  t.match(open, { backend: 'files', bodySha256: sha256('half'), bodyComplete: false, closedAtMs: null, aborted: false })
  socket.end()
  const truncated = await findClosed(path)
  t.match(truncated, { bodySha256: sha256('half'), bodyBytes: 4, bodyComplete: false, aborted: true })
})

t.test('a peer that leaves before the answer is complete has aborted', async (t) => {
  const { socket, text, path } = runScript([{ comment: 'on' }, { end: 'hang' }])
  await until(() => text().includes(': on') || undefined)
  t.match(await findRecorded(path), { bodyComplete: true, closedAtMs: null })
  const passedMs = startFairClock(t)
  socket.resetAndDestroy()
  const recorded = await findClosed(path)
  t.match(recorded, { backend: 'agent', bodyComplete: true, aborted: true })
  t.ok(passedMs() < 1000, `${passedMs()} ms`)
})

t.test('the recorder lists the oldest first, and forgets when told', async (t) => {
  const paths = [makePath(), makePath(), makePath()]
  for (const path of paths) await (await fetch(`${urls.data}${path}`)).text()
  const lines = (await listRequests()).map(({ requestLine }) => requestLine.split(' ')[1] ?? '')
  t.same(lines.slice(-3), paths)
  t.equal((await fetch(`${urls.recorder}/requests`, { method: 'DELETE' })).status, 204)
  t.same(await listRequests(), [])
})

t.test('bytes that are not a request are recorded too', async (t) => {
  const path = makePath()
  await openRaw(urls.platform, `GET ${path} HTTP/9.9\r\n\r\n`).ended
  t.match(await findClosed(path), { requestLine: `GET ${path} HTTP/9.9`, headers: [], bodyComplete: false })
})

t.test('headers of 200 KiB and bodies of 64 MiB arrive', async (t) => {
  const path = makePath()
  const { socket, ended } = openRaw(
    urls.platform,
    `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Big: ${'b'.repeat(200 * 1024)}\r\nConnection: close\r\nContent-Length: ${64 * 2 ** 20}\r\n\r\n`,
  )
  const piece = randomBytes(2 ** 20)
  const hash = createHash('sha256')
  for (let sent = 0; sent < 64; sent += 1) {
    hash.update(piece)
    await new Promise((resolve) => socket.write(piece, resolve))
  }
  t.match((await ended).text, /^HTTP\/1\.1 200 OK/)
  t.match(await findClosed(path), { bodySha256: hash.digest('hex'), bodyBytes: 64 * 2 ** 20, bodyComplete: true })
})

t.test('every backend obeys x-demo-answer on every path and method', async (t) => {
  const { recorder: _, ...answering } = urls
  const cases = [
    ['GET', '/datasets'],
    ['POST', '/agent/1/responses'],
    ['DELETE', '/v1/files/file-zeros-1'],
    ['OPTIONS', '/graphql'],
    ['PATCH', '/anything'],
  ]
  const answer = JSON.stringify({
    status: 429,
    headers: { 'Retry-After': '7', 'X-A': ['1', '2'] },
    body: 'slow – down',
  })
  for (const [name, url] of Object.entries(answering)) {
    for (const [method = '', path = ''] of cases) {
      const response = await fetch(url + path, {
        method,
        headers: { 'x-demo-answer': Buffer.from(answer).toString('latin1') },
      })
      t.equal(response.status, 429, `${name} ${method} ${path}`)
      t.equal(response.headers.get('retry-after'), '7')
      t.equal(response.headers.get('x-a'), '1, 2')
      t.equal(await response.text(), 'slow – down')
    }
  }
})

t.test('x-demo-answer keeps header lines apart and framing as given', async (t) => {
  const ask = (method: string, answer: unknown) =>
    openRaw(
      urls.data,
      `${method} /data/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-demo-answer: ${JSON.stringify(answer)}\r\n\r\n`,
    ).ended
  const cookies = await ask('GET', { status: 200, headers: { 'Set-Cookie': ['a=1', 'b=2'] }, bodyBase64: '/wA=' })
  t.match(cookies.text, 'Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 2\r\n')
  t.equal(bodyOf(cookies.text), '\xff\0')
  const head = await ask('HEAD', { status: 200, headers: { 'Content-Length': 100 } })
  t.match(head.text, 'Content-Length: 100\r\n')
  t.equal(bodyOf(head.text), '')
  const empty = await ask('GET', { status: 204 })
  t.notMatch(empty.text, /content-length|transfer-encoding/i)
  const odd = await ask('GET', { status: 888, body: '!' })
  t.match(odd.text, /^HTTP\/1\.1 888 /)
  t.match((await ask('GET', { status: 'no' })).text, /^HTTP\/1\.1 400 /)
})

t.test('x-demo-answer waits for a body, but not for one that stalls', async (t) => {
  const header = `x-demo-answer: ${JSON.stringify({ status: 413 })}`
  const { text, socket } = openRaw(
    urls.platform,
    `POST /public/stall HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n${header}\r\n\r\nhalf`,
  )
  t.ok(await until(() => text().startsWith('HTTP/1.1 413 ') || undefined))
  socket.destroy()
})

t.test('each step of a script is sent as written', async (t) => {
  const event = { type: 'response.created', sequence_number: 0, text: 'ü' }
  const { ended, path } = runScript([
    { event },
    { comment: 'still here' },
    { raw: 'data: half' },
    { waitMs: 5 },
    { rawBase64: Buffer.from([0xff, 0x0d, 0x0a]).toString('base64') },
  ])
  const { text, how } = await ended
  t.match(text, streamHead)
  t.match(text, '\r\nTransfer-Encoding: chunked\r\n')
  const written = Buffer.from(`event: response.created\ndata: ${JSON.stringify(event)}\n\n`).toString('latin1')
  const steps = [written, ': still here\n\n', 'data: half', '\xff\r\n']
  t.equal(bodyOf(text), `${steps.map(chunked).join('')}0\r\n\r\n`, 'and the end is a normal one')
  t.equal(how, 'fin')
  t.match(await findClosed(path), { aborted: false })
})

t.test('an event on chat completions has no event line', async (t) => {
  const { text } = await runScript([{ event: { type: 'x', id: 'c' } }], 'chat/completions').ended
  t.equal(bodyOf(text), `${chunked('data: {"type":"x","id":"c"}\n\n')}0\r\n\r\n`)
})

t.test('a wait lasts as long as it says, with what came before it already sent', async (t) => {
  const { text, ended } = runScript([{ comment: 'a' }, { waitMs: 300 }, { comment: 'b' }])
  await until(() => text().includes(': a\n\n') || undefined)
  const startedAtMs = Date.now()
  t.notMatch(text(), ': b')
  t.match((await ended).text, ': b\n\n')
  t.ok(Date.now() - startedAtMs > 200)
})

t.test('fin closes the connection without a last chunk', async (t) => {
  const { ended, path } = runScript([{ comment: 'a' }, { end: 'fin' }])
  const { text, how } = await ended
  t.equal(bodyOf(text), chunked(': a\n\n'))
  t.equal(how, 'fin')
  t.match(await findClosed(path), { aborted: false }, 'it was not the peer')
})

t.test('rst resets the connection after what was written', async (t) => {
  const { ended, path } = runScript([{ comment: 'a' }, { waitMs: 20 }, { end: 'rst' }])
  const { text, how } = await ended
  t.equal(bodyOf(text), chunked(': a\n\n'))
  t.equal(how, 'reset')
  t.match(await findClosed(path), { aborted: false })
})

t.test('fin and rst as the only step answer nothing at all', async (t) => {
  t.same(await runScript([{ end: 'fin' }]).ended, { text: '', how: 'fin' })
  t.same(await runScript([{ end: 'rst' }]).ended, { text: '', how: 'reset' })
})

t.test('hang sends the head and then keeps silent', async (t) => {
  const { socket, text, path } = runScript([{ end: 'hang' }])
  await until(() => text().endsWith('\r\n\r\n') || undefined)
  await delay(50)
  t.match(text(), streamHead)
  t.equal(bodyOf(text()), '')
  t.match(await findRecorded(path), { closedAtMs: null })
  socket.destroy()
  t.match(await findClosed(path), { aborted: true })
})

t.test('a status step answers with its headers and body, and no stream', async (t) => {
  const step = { status: 409, headers: { 'X-A': 'b', 'Content-Type': 'text/html' }, body: '<p>no' }
  const { text } = await runScript([{ waitMs: 1 }, step]).ended
  t.match(text, /^HTTP\/1\.1 409 Conflict\r\nX-A: b\r\nContent-Type: text\/html\r\nContent-Length: 5\r\n/)
  t.equal(bodyOf(text), '<p>no')
  const json = await runScript([{ status: 500, body: { error: 'x' } }]).ended
  t.match(json.text, 'Content-Type: application/json\r\n')
  t.equal(bodyOf(json.text), '{"error":"x"}')
})

t.test('a script stops when the peer leaves', async (t) => {
  const endless = Array.from({ length: 1000 }, () => [{ comment: 'x' }, { waitMs: 10 }]).flat()
  const { socket, text, path } = runScript(endless)
  await until(() => text().includes(': x') || undefined)
  socket.destroy()
  const recorded = await findClosed(path)
  t.equal(recorded.aborted, true)
  t.ok(Number(recorded.closedAtMs) - recorded.startedAtMs < 5000)
})

t.test('a bad script is refused whole', async (t) => {
  const bad = [
    'x',
    [1],
    [{}],
    [{ comment: 1 }],
    [{ waitMs: -1 }],
    [{ end: 'later' }],
    [{ event: 'x' }],
    [{ comment: 'a', raw: 'b' }],
    [{ comment: 'a', body: 'b' }],
    [{ end: 'fin' }, { comment: 'a' }],
    [{ comment: 'a' }, { status: 200 }],
    [{ status: 99 }],
  ]
  for (const script of bad) {
    const { text } = await runScript(script).ended
    t.match(text, /^HTTP\/1\.1 400 /, JSON.stringify(script))
    t.match(JSON.parse(bodyOf(text)), {
      error: { message: String, type: 'invalid_request_error', code: 'bad_instruction' },
    })
  }
  const response = await fetch(`${urls.agent}/agent/1/responses`, { method: 'POST', body: '{' })
  t.equal(response.status, 400)
})

async function call(operation: string, body: unknown): Promise<Response> {
  return fetch(`${urls.agent}/agent/3/${operation}`, { method: 'POST', body: JSON.stringify(body) })
}

function parseStream(text: string): { name: string | undefined; data: string }[] {
  return text
    .split('\n\n')
    .filter((block) => block !== '')
    .map((block) => {
      const lines = block.split('\n')
      const name = lines.find((line) => line.startsWith('event: '))?.slice(7)
      return { name, data: lines.find((line) => line.startsWith('data: '))?.slice(6) ?? '' }
    })
}

type Piece = Readonly<{
  type: string
  sequence_number: number
  delta: string
  response: { status: string; output: { content: { text: string }[] }[] }
}>

t.test('the normal Responses stream counts from 0 to response.completed', async (t) => {
  const events = parseStream(await (await call('responses', { input: 'hi', stream: true })).text())
  const pieces = events.map(({ data }) => JSON.parse(data) as Piece)
  t.same(
    pieces.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]),
    [
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ],
  )
  t.same(
    events.map(({ name }) => name),
    pieces.map(({ type }) => type),
  )
  t.same(
    pieces.map((piece) => piece.sequence_number),
    [...pieces.keys()],
  )
  const said = pieces.filter(({ type }) => type === 'response.output_text.delta').map(({ delta }) => delta)
  t.ok(said.length > 3)
  t.equal(pieces.at(-1)?.response.output[0]?.content[0]?.text, said.join(''))
})

t.test('the normal chat stream ends with [DONE]', async (t) => {
  const messages = [{ role: 'user', content: 'hi' }]
  const events = parseStream(await (await call('chat/completions', { messages, stream: true })).text())
  t.equal(events.at(-1)?.data, '[DONE]')
  const chunks = events.slice(0, -1).map(({ name, data }) => ({ name, ...JSON.parse(data) }))
  t.ok(chunks.every(({ name, object }) => name === undefined && object === 'chat.completion.chunk'))
  t.equal(chunks.at(-1)?.choices[0].finish_reason, 'stop')
  t.equal(new Set(chunks.map(({ id }) => id)).size, 1)
})

t.test('without stream the agent answers one object', async (t) => {
  const response = await (await call('responses', { input: 'hi' })).json()
  t.match(response, { object: 'response', status: 'completed', output: [{ type: 'message' }] })
  const chat = await (await call('chat/completions', { messages: [] })).json()
  t.match(chat, { object: 'chat.completion', choices: [{ message: { role: 'assistant' }, finish_reason: 'stop' }] })
})

async function upload(content: Buffer, purpose?: string): Promise<Response> {
  const form = new FormData()
  if (purpose !== undefined) form.set('purpose', purpose)
  form.set('file', new Blob([content]), 'a "b".bin')
  return fetch(`${urls.files}/v1/files`, { method: 'POST', body: form })
}

t.test('an uploaded file is listed, read, and deleted', async (t) => {
  const content = Buffer.concat([randomBytes(300_000), Buffer.from('\r\n--'), randomBytes(300_000)])
  const file = (await (await upload(content, 'assistants')).json()) as { id: string }
  t.match(file, { object: 'file', bytes: content.length, purpose: 'assistants', filename: /bin$/ })
  const list = (await (await fetch(`${urls.files}/v1/files`)).json()) as { data: { id: string }[] }
  t.match(list, { object: 'list', has_more: false })
  t.ok(list.data.some(({ id }) => id === file.id))
  const url = `${urls.files}/v1/files/${file.id}`
  t.same(await (await fetch(url)).json(), file)
  t.equal(sha256(Buffer.from(await (await fetch(`${url}/content`)).arrayBuffer())), sha256(content))
  t.same(await (await fetch(url, { method: 'DELETE' })).json(), { id: file.id, object: 'file', deleted: true })
  const gone = await fetch(url)
  t.equal(gone.status, 404)
  t.match(await gone.json(), { success: false, message: String, error: { status: 404 } })
})

t.test('a large or empty upload is counted; only the start of its content is kept', async (t) => {
  const large = (await (await upload(randomBytes(5 * 2 ** 20))).json()) as { id: string }
  t.match(large, { bytes: 5 * 2 ** 20, purpose: 'user_data' })
  t.equal((await fetch(`${urls.files}/v1/files/${large.id}/content`)).status, 404)
  t.match(await (await upload(Buffer.alloc(0))).json(), { bytes: 0 })
})

t.test('an upload that is not a form is 400 in the envelope', async (t) => {
  const plain = await fetch(`${urls.files}/v1/files`, { method: 'POST', body: 'x' })
  t.equal(plain.status, 400)
  t.match(await plain.json(), { success: false, error: { status: 400 } })
  const form = new FormData()
  form.set('purpose', 'x')
  t.equal((await fetch(`${urls.files}/v1/files`, { method: 'POST', body: form })).status, 400)
})

t.test('content answers ranges', async (t) => {
  const { id } = (await (await upload(Buffer.from('0123456789'))).json()) as { id: string }
  const read = async (range: string) => {
    const response = await fetch(`${urls.files}/v1/files/${id}/content`, { headers: { range } })
    return [response.status, response.headers.get('content-range'), await response.text()]
  }
  t.same(await read('bytes=2-4'), [206, 'bytes 2-4/10', '234'])
  t.same(await read('bytes=7-'), [206, 'bytes 7-9/10', '789'])
  t.same(await read('bytes=-3'), [206, 'bytes 7-9/10', '789'])
  t.same(await read('bytes=8-99'), [206, 'bytes 8-9/10', '89'])
  t.same((await read('bytes=10-')).slice(0, 2), [416, 'bytes */10'])
  t.same((await read('bytes=5-2')).slice(0, 2), [200, null])
  t.same(await read('pages=1-2'), [200, null, '0123456789'])
})

t.test('zeros stream at the pace of their reader, and stop when the reader leaves', async (t) => {
  const size = 2 ** 40
  const path = `/v1/files/file-zeros-${size}/content`
  const { socket, text, ended } = openRaw(urls.files, `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
  await until(() => text().length > 2 ** 20 || undefined)
  socket.pause()
  t.match(text(), `Content-Length: ${size}\r\n`)
  const before = readHeldBytes()
  await delay(100)
  t.ok(readHeldBytes() - before < 64 * 2 ** 20)
  socket.resetAndDestroy()
  t.match(await findClosed(path), { aborted: true })
  void ended
  const part = await fetch(`${urls.files}${path}`, { headers: { range: `bytes=${size - 70_000}-` } })
  t.equal((await part.arrayBuffer()).byteLength, 70_000)
})

t.test('the platform paginates', async (t) => {
  t.match(await (await fetch(`${urls.platform}/status`)).json(), { status: 'ok' })
  const headers = { 'x-organization-id': '2' }
  const page = await (await fetch(`${urls.platform}/datasets?page=2&perPage=2`, { headers })).json()
  t.match(page, { success: true, meta: { currentPage: 2, total: 5, perPage: 2, lastPage: 3 } })
  t.match(page, { data: [{ id: 3, organizationId: 2 }, { id: 4 }] })
  for (const path of ['/workflows', '/clusters', '/datasets/1/entries']) {
    t.match(await (await fetch(urls.platform + path)).json(), { success: true, meta: { currentPage: 1 } }, path)
  }
  t.match(await (await fetch(`${urls.platform}/datasets/2`)).json(), { success: true, data: { id: 2 } })
  t.match(await (await fetch(`${urls.platform}/datasets`, { method: 'POST' })).json(), { method: 'POST', bodyBytes: 0 })
})

t.test('a data cluster answers flat objects, and {detail} for an unknown entry', async (t) => {
  const read = async (url: string) => {
    const response = await fetch(url)
    return [response.status, await response.json()] as const
  }
  t.match(await read(`${urls.clusterHealthy}/`), [200, { name: 'cluster-healthy' }])
  t.match(await read(`${urls.clusterGlobex}/entries/3`), [200, { id: 3, cluster: 'cluster-globex' }])
  t.same(await read(`${urls.clusterGlobex}/entries/999`), [404, { detail: 'Entry 999 not found' }])
  t.match(await read(`${urls.data}/data/entries/1`), [200, { id: 1 }])
  t.match(await read(`${urls.data}/data/entries/x`), [404, { detail: String }])
})

t.test('GraphQL answers data, or errors for what it cannot read', async (t) => {
  const ask = async (body: string) => (await fetch(`${urls.graphql}/graphql`, { method: 'POST', body })).json()
  t.match(await ask(JSON.stringify({ query: '{ metrics { requests } }' })), { data: { metrics: { requests: Number } } })
  for (const body of ['{', '{}', JSON.stringify({ query: '{ metrics {' })]) {
    t.match(await ask(body), { data: null, errors: [{ message: String, path: [], extensions: { code: String } }] })
  }
})

t.test('the WebSocket echoes, and its upgrade is recorded', async (t) => {
  const query = `/socket?${randomUUID()}`
  const socket = new WebSocket(urls.platform.replace('http', 'ws') + query)
  const received: string[] = []
  await new Promise<void>((resolve) => {
    socket.on('open', () => socket.send('text'))
    socket.on('message', (data, isBinary) => {
      received.push(`${isBinary} ${data}`)
      if (received.length === 1) socket.send(Buffer.from('bytes'))
      else resolve()
    })
  })
  t.same(received, ['false text', 'true bytes'])
  t.match(await findRecorded(query), { backend: 'platform', bodyComplete: true, closedAtMs: null })
  socket.close(1000)
  t.match(await findClosed(query), { requestLine: `GET ${query} HTTP/1.1`, aborted: false })
})

t.test('a WebSocket that is dropped was aborted', async (t) => {
  const query = `/socket?${randomUUID()}`
  const socket = new WebSocket(urls.platform.replace('http', 'ws') + query)
  await new Promise((resolve) => socket.once('open', resolve))
  socket.terminate()
  t.match(await findClosed(query), { aborted: true })
})

t.test('without an upgrade, or with another one, the socket is an ordinary answer', async (t) => {
  const plain = await fetch(`${urls.platform}/socket`)
  t.equal(plain.status, 426)
  const upgrade = 'Host: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  const elsewhere = await openRaw(urls.platform, `GET /public/up HTTP/1.1\r\n${upgrade}\r\n`).ended
  t.match(elsewhere.text, /^HTTP\/1\.1 200 OK\r\n/)
  t.match(JSON.parse(bodyOf(elsewhere.text)), { target: '/public/up' })
  const told = `${upgrade}x-demo-answer: {"status":200,"body":"no"}\r\n`
  const refused = await openRaw(urls.platform, `GET /socket HTTP/1.1\r\n${told}\r\n`).ended
  t.match(refused.text, /^HTTP\/1\.1 200 OK\r\n/)
  t.equal(bodyOf(refused.text), 'no')
  t.match(await findClosed('/public/up'), { aborted: false })
})

t.test('stopping cuts every connection at once', async (t) => {
  const others = await startBackends()
  const body = JSON.stringify({ metadata: { script: [{ end: 'hang' }] } })
  const { text, socket } = openRaw(
    others.urls.agent,
    `POST /agent/1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  const webSocket = new WebSocket(`${others.urls.platform.replace('http', 'ws')}/socket`)
  await new Promise((resolve) => webSocket.once('open', resolve))
  await until(() => text().includes('200 OK') || undefined)
  const gone = [socket, webSocket].map((open) => new Promise((resolve) => open.once('close', resolve)))
  const passedMs = startFairClock(t)
  await others.stop()
  await Promise.all(gone)
  t.ok(passedMs() < 500, `${passedMs()} ms`)
})
