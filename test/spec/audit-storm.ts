import { once } from 'node:events'
import { Agent, request as httpRequest } from 'node:http'
import { connect } from 'node:net'
import { makeId } from '../support/audit.ts'
import { callRaw } from '../support/client.ts'
import type { Serving } from '../support/serve.ts'
import { askAtOnce } from '../support/workers.ts'
import { bearer, oauth, type TestWorld } from '../support/world.ts'

/** Requests by id: those that the audit must have, and those that it may have, since their client may leave before. */
export type Storm = Readonly<{
  certain: readonly string[]
  possible: readonly string[]
  /** The number of requests that the gateway cannot read, whose ids it does not know. */
  unreadable: number
  /** The number of certain requests whose body broke off. */
  brokenBodies: number
}>

/** One request over a kept connection; resolves to its status. */
function ask(agent: Agent, origin: string, method: string, path: string, headers: Record<string, string>) {
  return new Promise<number>((resolve, reject) => {
    const { hostname, port } = new URL(origin)
    const request = httpRequest({ agent, hostname, port, method, path, headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
    request.on('error', reject)
    request.end()
  })
}

/** Sends a request and breaks the connection at a random moment. */
function askAndLeave(origin: string, id: string, jwt: string): Promise<void> {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => {})
  socket.write(`GET /public/hangs HTTP/1.1\r\nHost: h\r\nx-request-id: ${id}\r\nx-oauth-access-token: ${jwt}\r\n\r\n`)
  setTimeout(() => (Math.random() < 0.5 ? socket.destroy() : socket.resetAndDestroy()), Math.random() * 20)
  return once(socket, 'close').then(() => undefined)
}

/** Opens a stream, and closes the connection after its first bytes. */
function openAndLeave(origin: string, id: string, credential: Record<string, string>): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { ...credential, 'x-request-id': id }
    const request = httpRequest(
      `${origin}/agent/1/responses`,
      { method: 'POST', headers, agent: false },
      (response) => {
        response.on('error', () => {})
        response.once('data', () => {
          request.destroy()
          resolve()
        })
      },
    )
    request.on('error', reject)
    request.end('{}')
  })
}

/** The gateway closes each raw connection by itself, on a busy machine late. */
const patienceMs = 30_000

const framingErrors = [
  'nonsense\r\n\r\n',
  'GET /public/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n',
  'GET /public/x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
  `GET /public/x HTTP/1.1\r\nHost: h\r\nx: ${'y'.repeat(40_000)}\r\n\r\n`,
  'CONNECT h:80 HTTP/1.1\r\nHost: h\r\n\r\n',
  'GET /public/x HTTP/1.1\r\nHost: h\r\nx: a\u0000b\r\n\r\n',
]

/**
 * Some two thousand requests of every kind, at both listeners. The upstream must answer `/agent/` with a stream that
 * stays open.
 */
export async function storm(serving: Serving, world: TestWorld): Promise<Storm> {
  const { owner, member, client } = world.users
  const { robot } = world.serviceAccounts
  const certain: string[] = []
  const possible: string[] = []
  const agent = new Agent({ keepAlive: true, maxSockets: 40 })
  const kinds = [
    ['GET', '/public/x', oauth(owner), 200],
    ['GET', '/users/me', bearer(robot.apiKey), 200],
    ['POST', '/datasets', bearer(robot.apiKey), 403],
    ['GET', '/admin/x', oauth(member), 403],
    ['GET', '/datasets', oauth(client), 403],
    ['GET', '/datasets', bearer(robot.revoked), 401],
    ['GET', '/datasets', {}, 401],
    ['GET', '/datasets', { ...oauth(member), 'x-organization-id': String(world.organizations.globex.id) }, 401],
    ['GET', '/nowhere', oauth(owner), 404],
    ['DELETE', '/datasets', oauth(owner), 405],
    ['GET', '/public//x', oauth(owner), 400],
    ['GET', '/clusters/2/proxy/x', oauth(member), 403],
    ['GET', '/public/upgrade', { ...oauth(owner), connection: 'upgrade', upgrade: 'websocket' }, 200],
  ] as const
  const askOne = async (index: number): Promise<void> => {
    const [method, path, headers, status] = kinds[index % kinds.length] ?? kinds[0]
    const id = makeId()
    certain.push(id)
    const answered = await ask(agent, serving.public, method, path, { ...headers, 'x-request-id': id })
    // A busy machine's database may not answer in time.
    if (answered !== status && answered !== 503) throw new Error(`${method} ${path} is ${answered}`)
  }
  const judgeOne = async (): Promise<void> => {
    const id = makeId()
    certain.push(id)
    const about = { 'x-original-method': 'GET', 'x-original-uri': '/datasets' }
    await ask(agent, serving.decision, 'GET', '/authorize', { ...about, ...oauth(member), 'x-request-id': id })
  }
  const pipeline = async (): Promise<void> => {
    const ids = Array.from({ length: 20 }, makeId)
    certain.push(...ids)
    const head = (id: string) => `GET /nowhere HTTP/1.1\r\nHost: h\r\nx-request-id: ${id}\r\n`
    const bytes = ids.map((id, index) => `${head(id)}${index === 19 ? 'Connection: close\r\n' : ''}\r\n`)
    await callRaw(serving.public, bytes.join(''), patienceMs)
  }
  const breakBody = async (): Promise<void> => {
    const id = makeId()
    certain.push(id)
    const head = `POST /public/x HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${owner.jwt}\r\nx-request-id: ${id}\r\n`
    const body = '3\r\nabc\r\nnonsense\r\n'
    const answer = await callRaw(serving.public, `${head}Transfer-Encoding: chunked\r\n\r\n${body}`, patienceMs)
    // On a busy machine the request is 503 before its body is read, and then no body broke off.
    if (answer.startsWith('HTTP/1.1 400 ')) brokenBodies += 1
    else if (!answer.startsWith('HTTP/1.1 503 ')) throw new Error(`a broken body is answered ${answer}`)
  }
  const leave = async (): Promise<void> => {
    const id = makeId()
    possible.push(id)
    await askAndLeave(serving.public, id, owner.jwt)
  }
  const leaveStream = async (): Promise<void> => {
    const id = makeId()
    certain.push(id)
    await openAndLeave(serving.public, id, oauth(owner))
  }
  let next = 0
  let unreadable = 0
  let brokenBodies = 0
  await Promise.all([
    askAtOnce(40, 39, () => askOne(next++)),
    askAtOnce(8, 25, judgeOne),
    askAtOnce(5, 4, pipeline),
    askAtOnce(5, 8, () =>
      callRaw(serving.public, framingErrors[unreadable++ % framingErrors.length] ?? '', patienceMs),
    ),
    askAtOnce(2, 5, () => callRaw(serving.decision, 'nonsense\r\n\r\n', patienceMs)),
    askAtOnce(5, 4, breakBody),
    askAtOnce(10, 15, leave),
    askAtOnce(5, 6, leaveStream),
  ])
  agent.destroy()
  return { certain, possible, unreadable: unreadable + 10, brokenBodies }
}
