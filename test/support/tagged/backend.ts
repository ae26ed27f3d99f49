// A backend in a process of its own, which answers each request as the request itself says, and counts what it saw.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import { type AnswerPlan, BodyCheck, composeAnswer, composeSurplus } from './answer-plan.ts'
import { MessageReader, readFraming, readHeader } from './message-reader.ts'

export type BackendOrder = Readonly<{ origins: number; cert?: string; key?: string }>

/** Counts of a backend since its start. */
export type BackendFigures = {
  requests: number
  /** Requests on a connection that had served another, and those whose predecessor was of another organization. */
  reused: number
  crossed: number
  surplus: number
  /** Origins that have sent a surplus. */
  spoilt: number
  /** Connections that are open now. */
  open: number
  /** Bodies of requests that held a byte of another. */
  foreign: string[]
}

const figures: BackendFigures = { requests: 0, reused: 0, crossed: 0, surplus: 0, spoilt: 0, open: 0, foreign: [] }

/** Another process had the processor between two writes that were longer apart: such a surplus is later than it should be. */
const longestTurnMs = 8

type Request = Readonly<{ method: string; tag: string; plan: AnswerPlan; isLast: boolean }>

function serve(socket: Socket, onSurplus: () => void): void {
  const waiting: Request[] = []
  let last: string | undefined
  let isBusy = false
  let request: Request | undefined
  let check: BodyCheck | undefined
  const next = (): void => {
    isBusy = false
    const first = waiting.shift()
    if (first) begin(first)
  }
  const begin = (wanted: Request): void => {
    if (isBusy) waiting.push(wanted)
    else {
      isBusy = true
      void answer(socket, wanted, onSurplus, next)
    }
  }
  const reader = new MessageReader({
    head: (head) => {
      request = readRequest(head)
      const { tag, plan } = request
      const [organization = ''] = tag.split('/')
      figures.requests += 1
      if (last !== undefined) figures.reused += 1
      if (last !== undefined && last !== organization) figures.crossed += 1
      last = organization
      const framing = readFraming(head, 0)
      check = framing === 0 ? undefined : new BodyCheck(tag, typeof framing === 'number' ? framing : 4_096)
      if (plan.isEarly) begin(request)
      return framing
    },
    body: (bytes) => {
      const at = check?.take(bytes) ?? -1
      if (at >= 0) figures.foreign.push(`${request?.tag} brought ${bytes.toString('latin1', at, at + 80)}`)
    },
    end: () => {
      if (request && !request.plan.isEarly) begin(request)
    },
  })
  figures.open += 1
  socket.on('close', () => {
    figures.open -= 1
  })
  socket.setNoDelay(true)
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    try {
      reader.push(bytes)
    } catch (error) {
      figures.foreign.push(`unreadable request behind ${request?.tag}: ${String(error)}`)
      socket.destroy()
    }
  })
}

function readRequest(head: string): Request {
  const [method = '', target = ''] = head.split(' ', 2)
  return {
    method,
    tag: target.split('/').slice(-3).join('/'),
    isLast: readHeader(head, 'connection') === 'close',
    plan: JSON.parse(readHeader(head, 'x-plan') ?? '{"status":200,"framing":"length","bytes":0}'),
  }
}

async function answer(socket: Socket, { method, tag, plan, isLast }: Request, onSurplus: () => void, next: () => void) {
  const { delayMs = 0, interimHeads = 0, cuts = [], gapMs = 0, breaksAfter, surplus } = plan
  if (delayMs > 0) await pause(delayMs)
  if (interimHeads > 0) {
    socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(interimHeads))
    if (gapMs > 0) await pause(gapMs)
  }
  const whole = composeAnswer(plan, method, tag)
  const bytes = breaksAfter === undefined ? whole : whole.subarray(0, breaksAfter)
  let from = 0
  for (const cut of cuts) {
    if (cut <= from || cut >= bytes.length) continue
    socket.write(bytes.subarray(from, cut))
    await pause(gapMs)
    from = cut
  }
  const rest = bytes.subarray(from)
  if (breaksAfter !== undefined) socket.write(rest, () => socket.destroy())
  else if (plan.framing === 'close') socket.end(rest)
  else if (surplus === undefined) socket.write(rest)
  else await writeWithSurplus(socket, rest, surplus, tag, onSurplus)
  if (isLast && !plan.ignoresClose) socket.end()
  next()
}

const pause = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    if (ms < 1) setImmediate(resolve)
    else setTimeout(resolve, ms)
  })

async function writeWithSurplus(
  socket: Socket,
  rest: Buffer,
  surplus: NonNullable<AnswerPlan['surplus']>,
  tag: string,
  onSurplus: () => void,
): Promise<void> {
  const compose = (timing: string): Buffer => composeSurplus(surplus, `${tag}+${timing}`)
  figures.surplus += 1
  onSurplus()
  switch (surplus.timing) {
    case 'joined':
      socket.write(Buffer.concat([rest, compose('joined')]))
      return
    case 'corked':
      socket.cork()
      socket.write(rest)
      socket.write(compose('corked'))
      socket.uncork()
      return
    case 'apart':
    case 'late': {
      const beganMs = performance.now()
      socket.write(rest)
      const lateMs = surplus.lateMs ?? 0
      if (surplus.timing === 'late') await pause(lateMs)
      const isOverdue = performance.now() - beganMs > lateMs + longestTurnMs
      if (isOverdue) socket.destroy()
      else socket.write(compose(surplus.timing))
      return
    }
    default:
      surplus.timing satisfies never
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port // a TCP listener's address is never a string
}

process.on('disconnect', () => process.exit())
process.on('message', async (order: BackendOrder | 'figures') => {
  if (order === 'figures') {
    process.send?.(figures)
    return
  }
  const { origins, cert, key } = order
  const ports: number[] = []
  for (let origin = 0; origin < origins; origin += 1) {
    let isSpoilt = false
    const onSurplus = (): void => {
      if (!isSpoilt) figures.spoilt += 1
      isSpoilt = true
    }
    const take = (socket: Socket): void => serve(socket, onSurplus)
    ports.push(await listen(cert && key ? createSecureServer({ cert, key }, take) : createServer(take)))
  }
  process.send?.(ports)
})
