import type { Test } from 'tap'
import { readHeaders } from '../../gateway/stages/receive/headers.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { openRawClient, openRoute, startTestGateway } from '../support/gateway.ts'
import { type ParsedRequest, sha256, startParsingBackend } from '../support/parsed-requests.ts'
import { type Reading, type ReferenceReading, readByNode } from './reference-server.ts'
import { type RawAnswer, splitAnswers } from './split-answers.ts'

/** The differences between the gateway and the reference, a sentence each, and how many requests arrived upstream. */
export type Comparison = Readonly<{ problems: readonly string[]; arrived: number }>

type Outcome = Readonly<{ answers: readonly RawAnswer[]; isClosed: boolean; arrived: readonly ParsedRequest[] }>

/** The longest time of an exchange. The second attempt has more, in case the machine was busy at the first. */
const patienceMs = [1_500, 5_000] as const

/** A request that is sent last where the reference waits for one, so that the gateway closes the connection. */
const last = Buffer.from('GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n')

/** Starts a gateway that forwards everything, and compares what it makes of bytes with what node:http makes of them. */
export async function startComparing(t: Test): Promise<(packets: readonly Buffer[]) => Promise<Comparison>> {
  const backend = await startParsingBackend(t)
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: backend.url, preserveHost: true } },
  })
  const send = async (packets: readonly Buffer[], reading: ReferenceReading, withinMs: number): Promise<Outcome> => {
    backend.clear()
    const { socket, send, text } = await openRawClient({ teardown: () => undefined }, gateway.public)
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    for (const packet of packets) {
      send(packet)
      // Long enough for loopback to deliver it alone, mostly.
      if (packets.length > 1) await new Promise((resolve) => setTimeout(resolve, 2))
    }
    // An unfinished request never ends; but a client that ends its side does not wait for earlier answers.
    const wholeCount = reading.requests.filter(({ isWhole }) => isWhole).length
    const endWhenAnswered = (): void => {
      if (splitAnswers(text(), reading.requests).length >= wholeCount) socket.end()
    }
    if (reading.end === 'unfinished') {
      socket.on('data', endWhenAnswered)
      endWhenAnswered()
    }
    let isClosed = true
    const timer = setTimeout(() => {
      isClosed = false
      socket.destroy()
    }, withinMs)
    await closed
    clearTimeout(timer)
    const arrived = backend.connections().flatMap(({ requests }) => requests)
    return { answers: splitAnswers(text(), reading.requests), isClosed, arrived }
  }
  return async (packets) => {
    const before = await readByNode(packets)
    const all = before.end === 'idle' ? [...packets, last] : packets
    const reading = before.end === 'idle' ? await readByNode(all) : before
    let comparison: Comparison = { problems: [], arrived: 0 }
    for (const withinMs of patienceMs) {
      const outcome = await send(all, reading, withinMs)
      comparison = { problems: compare(outcome, reading), arrived: outcome.arrived.length }
      if (comparison.problems.length === 0) break
    }
    return comparison
  }
}

/** Answers and arrivals, one after the other, held against what the reference read. */
function compare({ answers, isClosed, arrived }: Outcome, { requests, end }: ReferenceReading): readonly string[] {
  const problems: string[] = isClosed ? [] : ['the connection stays open']
  const forwarded: Reading[] = []
  let isOver = false
  for (const [index, answer] of answers.entries()) {
    const request = requests[index]
    if (isOver) problems.push(`answer ${index} comes behind the last`)
    else if (!request) problems.push(...judgeRest(answer, end))
    else {
      problems.push(...judgeAnswer(answer, request).map((problem) => `request ${index}: ${problem}`))
      if (answer.status === 200) forwarded.push(request)
    }
    isOver = !request || answer.isLast
  }
  const isOwed = answers.length < requests.length || (end === 'refused' && answers.length === requests.length)
  if (isOwed && !isOver) problems.push(`${answers.length} answers for ${requests.length} requests that end ${end}`)
  return [...problems, ...compareArrived(arrived, forwarded)]
}

/** The gateway must read no request that the reference does not read. */
function judgeRest({ status, isLast }: RawAnswer, end: ReferenceReading['end']): readonly string[] {
  if (end === 'idle') return [`an answer (${status}) that nothing asked for`]
  return status >= 400 && isLast ? [] : [`${status} for bytes that are not a request`]
}

/** The engine's refusals of an unreadable head; all other refusals are of requests that it has read. */
const unreadable = /"(?:headers_malformed|headers_too_large|transfer_encoding_unknown|expectation_failed)"/

function judgeAnswer({ status, isLast, body }: RawAnswer, request: Reading): readonly string[] {
  const problems: string[] = []
  if (status === 0) problems.push(`no answer: ${body.slice(0, 200)}`)
  if (status === 200 && !request.isWhole) problems.push('a request without an end was served')
  if (request.isWhole && unreadable.test(body) && !explainRefusal(request))
    problems.push(`refused with ${status} without a reason`)
  if (isLast && request.isWhole && !mayBeLast(status, request)) problems.push('its answer is the last one')
  if (!isLast && (closing.has(status) || (request.isWhole && !request.isKeptAlive)))
    problems.push('its answer is not the last one')
  return problems
}

/** Refusals of a head that could be read in two ways: they end the connection. */
const closing: ReadonlySet<number> = new Set([400, 414, 417, 431, 501])

/** After an expectation the client may send its body or not; after a handshake it may speak another protocol. */
const mayBeLast = (status: number, { isKeptAlive, httpVersion, headers }: Reading): boolean =>
  !isKeptAlive ||
  // Without a length, as that of a HEAD may be, an answer to HTTP/1.0 ends with its connection.
  httpVersion === '1.0' ||
  closing.has(status) ||
  headers.some((name, index) => index % 2 === 0 && /^(?:expect|sec-websocket-key)$/i.test(name))

/** Whether the gateway's own rules refuse a request that node:http has read. */
function explainRefusal(request: Reading): boolean {
  try {
    readHeaders(request)
    return false
  } catch {
    return true
  }
}

function compareArrived(arrived: readonly ParsedRequest[], forwarded: readonly Reading[]): readonly string[] {
  const rest = [...arrived]
  const problems: string[] = []
  for (const request of forwarded) {
    const { host, passing } = readHeaders(request)
    const { path, search } = readTarget(request.method, request.target, host)
    const wanted = [request.method, path + search, sha256(request.body)].join(' ')
    const index = rest.findIndex(({ method, target, bodySha256 }) => wanted === [method, target, bodySha256].join(' '))
    const [found] = index < 0 ? [] : rest.splice(index, 1)
    if (!found) problems.push(`${wanted} was answered and did not arrive`)
    else if (!hasLines(found, passing)) problems.push(`${wanted} arrived with other headers`)
  }
  return [
    ...problems,
    ...rest.map(({ method, target }) => `${method} ${target} arrived, and was read by no other parser`),
  ]
}

const hasLines = ({ headers }: ParsedRequest, passing: readonly string[]): boolean =>
  passing.every(
    (name, index) =>
      index % 2 === 1 || headers.some(([found, value]) => found === name.toLowerCase() && value === passing[index + 1]),
  )
