import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { guarded } from '../../../gateway/base/fault/guarded.ts'
import { startFairClock } from '../fair-clock.ts'
import type { Owner } from '../owner.ts'
import { type AnswerPlan, BodyCheck, fillBody, tagPattern, unitOf } from './answer-plan.ts'
import { type Framing, MessageReader, readFraming, readHeader } from './message-reader.ts'

export type Caller = Readonly<{ organization: string; name: string; headers: Readonly<Record<string, string>> }>

/** A request whose answer is planned. */
export type Ask = Readonly<{
  caller: Caller
  number: number
  /** The beginning of the path, which leads to an origin. */
  place: string
  method: 'GET' | 'HEAD' | 'POST' | 'PUT'
  plan: AnswerPlan
  upload?: Readonly<{ bytes: number; isChunked: boolean }>
}>

/** Ways of a client, for all that it sends at once. */
export type Manners = Readonly<{
  /** Places at which a write ends, and the time before the next one. */
  cuts?: readonly number[]
  gapMs?: number
  /** How long it takes nothing after each read; at most ten times. */
  restMs?: number
  /** Leaves after so many bytes of answers. */
  leavesAfter?: number
}>

/** Bytes of another answer that a client got. */
export type Foreign = Readonly<{
  asked: string
  place: string
  /** The tag of what it got, where it could be read. */
  got: string | undefined
  text: string
}>

/** A late surplus cannot be told from an answer, and may then reach its own organization. */
export const isOfAnotherOrganization = ({ asked, got }: Pick<Foreign, 'asked' | 'got'>): boolean =>
  got?.split('/', 1)[0] !== asked.split('/', 1)[0]

export type AskFigures = {
  asked: number
  /** Requests that got their whole answer and nothing else. */
  own: number
  /** Statuses of the gateway's own answers. */
  refused: Map<number, number>
  /** Answers that broke, and requests whose connection closed before their turn. */
  broken: number
  unanswered: number
  /** Requests whose client left. */
  left: number
  hung: string[]
  foreign: Foreign[]
}

export const newFigures = (): AskFigures => ({
  asked: 0,
  own: 0,
  refused: new Map(),
  broken: 0,
  unanswered: 0,
  left: 0,
  hung: [],
  foreign: [],
})

const tagOf = ({ caller, number }: Ask): string => `${caller.organization}/${caller.name}/${number}`

/** A request in a report, which holds no credential. */
const describe = ({ method, place, plan, upload }: Ask): string => JSON.stringify({ method, place, plan, upload })

export function composeAsk(ask: Ask): Buffer {
  const { caller, method, place, plan, upload } = ask
  const tag = tagOf(ask)
  const lines = [`${method} /${place}/${tag} HTTP/1.1`, 'host: h', `x-plan: ${JSON.stringify(plan)}`]
  for (const [name, value] of Object.entries(caller.headers)) lines.push(`${name}: ${value}`)
  if (upload) lines.push(upload.isChunked ? 'transfer-encoding: chunked' : `content-length: ${upload.bytes}`)
  const head = Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1')
  if (!upload) return head
  const body = fillBody(tag, upload.bytes)
  if (!upload.isChunked) return Buffer.concat([head, body])
  const first = body.length > 0 ? [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n')] : []
  return Buffer.concat([head, ...first, Buffer.from('0\r\n\r\n')])
}

/** Sends requests one behind the other on one connection, and resolves when each is settled. */
export type SendAsks = (asks: readonly Ask[], manners?: Manners) => Promise<void>

export type ClientOptions = Readonly<{ origin: string; figures: AskFigures; passedMs: () => number }>

/** The longest that a connection may bring no byte of what it was asked for, on the fair clock, since a slow answer may still come. */
const patienceMs = 30_000

/** A client whose connection is kept from one call to the next, as long as the gateway keeps it. */
export function openTaggedClient(owner: Owner, options: ClientOptions): SendAsks {
  let connection: Connection | undefined
  owner.teardown(() => connection?.destroy())
  return (asks, manners = {}) => {
    if (!connection?.isOpen) connection = new Connection(options)
    return connection.send(asks, manners)
  }
}

/** Ends a run's clients that wait in vain. */
export function startPatience(owner: Owner): () => number {
  const passedMs = startFairClock(owner)
  const look = (): void => {
    for (const connection of Connection.waiting) connection.endIfLate()
  }
  const timer = setInterval(guarded('process', look), 1_000)
  owner.teardown(() => clearInterval(timer))
  return passedMs
}

class Connection {
  static readonly waiting = new Set<Connection>()
  isOpen = true
  readonly #options: ClientOptions
  readonly #socket: Socket
  readonly #reader: MessageReader
  #asks: Ask[] = []
  #manners: Manners = {}
  #settle: (() => void) | undefined
  /** An early answer comes before the last piece of its request, which no other may interrupt. */
  #writing: Promise<void> = Promise.resolve()
  #sinceMs = 0
  #readBytes = 0
  #rests = 0
  #status = 0
  #hasBegun = false
  #isOwn = false
  /** The bytes after a foreign one say nothing. */
  #isAccused = false
  #check: BodyCheck | undefined
  #refusal = ''

  constructor(options: ClientOptions) {
    this.#options = options
    this.#reader = new MessageReader({
      head: (head) => this.#readHead(head),
      body: (bytes) => this.#readBody(bytes),
      end: () => this.#finish(),
    })
    const { hostname, port } = new URL(options.origin)
    this.#socket = connect(Number(port), hostname)
    this.#socket.setNoDelay(true)
    this.#socket.on('error', () => {})
    this.#socket.on('data', (bytes) => this.#take(bytes))
    this.#socket.on('end', () => this.#reader.close())
    this.#socket.on('close', () => this.#close())
  }

  send(asks: readonly Ask[], manners: Manners): Promise<void> {
    this.#asks = [...asks]
    this.#manners = manners
    this.#options.figures.asked += asks.length
    this.#sinceMs = this.#options.passedMs()
    this.#readBytes = 0
    this.#rests = 0
    Connection.waiting.add(this)
    this.#writing = this.#writing.then(() => this.#write(Buffer.concat(asks.map(composeAsk)), manners))
    return new Promise((resolve, reject) => {
      this.#settle = resolve
      this.#writing.catch(reject)
    })
  }

  async #write(bytes: Buffer, { cuts = [], gapMs = 0 }: Manners): Promise<void> {
    let from = 0
    for (const cut of cuts) {
      if (cut <= from || cut >= bytes.length) continue
      this.#socket.write(bytes.subarray(from, cut))
      from = cut
      await sleep(gapMs)
      if (!this.isOpen) return
    }
    this.#socket.write(bytes.subarray(from))
  }

  destroy(): void {
    this.#socket.destroy()
  }

  endIfLate(): void {
    if (this.#options.passedMs() - this.#sinceMs < patienceMs) return
    const [first] = this.#asks
    if (first) this.#options.figures.hung.push(`${tagOf(first)} ${describe(first)}`)
    this.destroy()
  }

  #take(bytes: Buffer): void {
    const { leavesAfter, restMs } = this.#manners
    this.#readBytes += bytes.length
    this.#sinceMs = this.#options.passedMs()
    if (leavesAfter !== undefined && this.#readBytes > leavesAfter) {
      this.#options.figures.left += this.#asks.length
      this.#asks = []
      this.destroy()
      return
    }
    try {
      this.#reader.push(bytes)
    } catch (error) {
      this.#accuse(`${String(error)}: ${bytes.toString('latin1', 0, 400)}`)
      this.destroy()
      return
    }
    if (restMs === undefined || this.#rests === 10 || this.#asks.length === 0) return
    this.#rests += 1
    this.#socket.pause()
    setTimeout(() => this.#socket.resume(), restMs)
  }

  #readHead(head: string): Framing {
    const [ask] = this.#asks
    this.#status = Number(head.slice(9, 12))
    this.#refusal = ''
    if (!ask) {
      this.#accuse(`an answer without a request: ${head}`)
      return 'close'
    }
    this.#hasBegun = true
    const unit = String(unitOf(tagOf(ask)))
    const found = head.match(tagPattern) ?? []
    if (found.some((tag) => tag !== unit)) this.#accuse(head)
    this.#isOwn = readHeader(head, 'x-tag') === unit
    this.#check = this.#isOwn ? new BodyCheck(tagOf(ask), ask.plan.bytes) : undefined
    if (this.#status < 200 || this.#status === 204 || this.#status === 304 || ask.method === 'HEAD') return 0
    return readFraming(head, 'close')
  }

  #readBody(bytes: Buffer): void {
    if (!this.#check) {
      this.#refusal += bytes.toString('latin1')
      return
    }
    const at = this.#check.take(bytes)
    if (at >= 0) this.#accuse(bytes.toString('latin1', at, at + 400))
  }

  #finish(): void {
    const { figures } = this.#options
    const [ask] = this.#asks
    if (!ask || this.#status < 200 || this.#isAccused) return
    this.#asks.shift()
    this.#hasBegun = false
    if (!this.#isOwn) {
      if (this.#refusal.match(tagPattern)) this.#accuse(this.#refusal, ask)
      figures.refused.set(this.#status, (figures.refused.get(this.#status) ?? 0) + 1)
    } else {
      const { plan, method } = ask
      const hasBody = method !== 'HEAD' && plan.status === 200
      if (this.#status !== plan.status || this.#check?.length !== (hasBody ? plan.bytes : 0))
        this.#accuse(`ended after ${this.#check?.length} bytes with ${this.#status}: ${describe(ask)}`, ask)
      figures.own += 1
    }
    if (this.#asks.length === 0) this.#settleAll()
  }

  #accuse(text: string, ask = this.#asks[0]): void {
    if (this.#isAccused) return
    this.#isAccused = true
    const own = ask && tagOf(ask)
    const got = text.match(tagPattern)?.find((tag) => tag !== `${own};`)
    this.#options.figures.foreign.push({
      asked: own ?? 'nothing',
      place: ask?.place ?? '',
      got,
      text: text.slice(0, 600),
    })
    this.destroy()
  }

  #close(): void {
    this.isOpen = false
    const { figures } = this.#options
    const broken = this.#hasBegun && !this.#isAccused && this.#asks.length > 0 ? 1 : 0
    figures.broken += broken
    figures.unanswered += Math.max(0, this.#asks.length - broken - (this.#isAccused ? 1 : 0))
    this.#asks = []
    this.#settleAll()
  }

  #settleAll(): void {
    Connection.waiting.delete(this)
    this.#settle?.()
    this.#settle = undefined
  }
}
