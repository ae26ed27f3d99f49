// The attacker of bench:attacks, in a process of its own. It takes an order, attacks from one message of its parent to
// the next, and reports its requests.
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { crc32 } from 'node:zlib'
import pg from 'pg'
import { hostilePaths } from '../../test/advisories/hostile-paths.ts'
import type { Order, Told } from './order.ts'

const order = JSON.parse(process.argv[2] ?? '{}') as Order
const { hostname, port } = new URL(order.origin)

const statuses: Record<string, number> = {}
let begun = 0
let turn = 0

/** A connection that hears statuses; calls back when it is over, with whether any came. */
function open(onStatuses: (socket: Socket, count: number) => void, onClose: () => void): Socket {
  const localAddress = order.addresses[turn++ % order.addresses.length] ?? '127.0.0.2'
  const socket = connect({ host: hostname, port: Number(port), localAddress })
  let heard = 0
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    // A status line in two pieces is missed, which does no harm to a count.
    const found = [...bytes.toString('latin1').matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status = '0']) => status)
    for (const status of found) statuses[status] = (statuses[status] ?? 0) + 1
    heard += found.length
    if (found.length > 0) onStatuses(socket, found.length)
  })
  socket.on('close', () => {
    if (heard === 0) statuses[0] = (statuses[0] ?? 0) + 1
    onClose()
  })
  return socket
}

const compose = (path: string, headers: Readonly<Record<string, string>> = {}): string =>
  `GET ${path} HTTP/1.1\r\nHost: attacked.example\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

/** One of those that begin again as soon as they may. */
function again(write: (socket: Socket) => void, pauseMs: number): void {
  begun += 1
  const socket = open(
    () => socket.destroy(),
    () => setTimeout(() => again(write, pauseMs), pauseMs),
  )
  socket.on('connect', () => write(socket))
}

/** A connection over which requests go, up to so many without an answer; it is opened anew where it ends. */
function keepOpen(most: number) {
  let waiting = 0
  let isOpen = false
  let socket: Socket
  const start = (): void => {
    waiting = 0
    socket = open(
      (_, count) => {
        waiting -= count
      },
      () => {
        isOpen = false
        setTimeout(start, 20)
      },
    )
    socket.on('connect', () => {
      isOpen = true
    })
  }
  start()
  return {
    canSend: () => isOpen && waiting < most,
    send: (text: string) => {
      waiting += 1
      begun += 1
      socket.write(text)
    },
  }
}

/** Sends what is due over whichever connection may take it; what none may take is not sent later. */
function pace(compose: () => string, most: number): void {
  const all = Array.from({ length: order.connections }, () => keepOpen(most))
  let next = 0
  let lastMs = performance.now()
  let due = 0
  setInterval(() => {
    const nowMs = performance.now()
    due = Math.min(due + ((nowMs - lastMs) * (order.perSecond ?? 0)) / 1_000, (order.perSecond ?? 0) / 10)
    lastMs = nowMs
    let tried = 0
    while (due >= 1 && tried < all.length) {
      const one = all[next++ % all.length]
      if (one?.canSend()) {
        one.send(compose())
        due -= 1
        tried = 0
      } else tried += 1
    }
  }, 5)
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** A token as it could have been issued: its checksum is right, but it does not exist. */
function guess(): string {
  const random = Array.from(randomBytes(40), (byte) => alphabet[byte % alphabet.length]).join('')
  const encode = (text: string): string => Buffer.from(text).toString('base64url')
  return `oat_${encode(String(1 + (randomBytes(4).readUInt32LE() % 1_000_000)))}.${encode(`${random}${crc32(random)}`)}`
}

const attacks: Readonly<Record<Order['kind'], () => void>> = {
  'line ends': () => {
    const bytes = Buffer.from(`${'\r'.repeat(80_000)}GET  / HTTP/1.1\r\nHost: attacked.example\r\n\r\n`)
    for (let count = 0; count < order.connections; count += 1) again((socket) => socket.write(bytes), 100)
  },
  requests: () => {
    const bytes = compose(order.path ?? '/', { ...order.headers, connection: 'close' })
    for (let count = 0; count < order.connections; count += 1) again((socket) => socket.write(bytes), 100)
  },
  targets: () => {
    let index = 0
    const requests = hostilePaths.map((path) => compose(path.slice(0, 8_150)))
    pace(() => requests[index++ % requests.length] ?? '', 1)
  },
  chunks: () => {
    const head = 'POST /datasets HTTP/1.1\r\nHost: attacked.example\r\nTransfer-Encoding: chunked\r\n\r\n'
    const chunks = Buffer.from('1\r\nx\r\n'.repeat(11_000))
    const upload = (): void => {
      begun += 1
      const socket = open(
        () => {},
        () => setTimeout(upload, 20),
      )
      const more = (): void => {
        while (socket.write(chunks));
      }
      socket.on('connect', () => {
        socket.write(head)
        more()
      })
      socket.on('drain', more)
    }
    for (let count = 0; count < order.connections; count += 1) upload()
  },
  streams: () => {
    const path = order.path ?? '/'
    const bytes = compose(path, { ...order.headers, 'content-type': 'application/json', 'content-length': '2' })
      .replace('GET', 'POST')
      .concat('{}')
    const stream = (): void => {
      begun += 1
      const socket = open(
        () => {},
        () => setTimeout(stream, 100),
      )
      socket.on('connect', () => socket.write(bytes))
    }
    for (let count = 0; count < order.connections; count += 1) stream()
  },
  notifications: () => {
    const client = new pg.Client({ connectionString: order.databaseUrl })
    const everyMs = 50
    const count = Math.ceil(((order.perSecond ?? 0) * everyMs) / 1_000)
    // Equal ones of a transaction are sent once.
    const text = `select pg_notify('sallyport_changes', case n % 2 when 0 then '{"kind":"everything"}' else 'x' end || repeat(' ', n))
      from generate_series(1, ${count}) n`
    let isAnswered = true
    const notify = async (): Promise<void> => {
      if (!isAnswered) return
      isAnswered = false
      await client.query(text)
      begun += count
      isAnswered = true
    }
    void client.connect().then(() => setInterval(notify, everyMs))
  },
  guesses: () => pace(() => compose('/datasets', { authorization: `Bearer ${guess()}` }), 16),
  'read-ahead': () => {
    const first = compose(order.path ?? '/', order.headers)
    const more = compose('/public/x')
    const bytes = Buffer.from(first + more.repeat(Math.ceil((128 * 1024) / more.length)))
    const hold = (): void => {
      begun += 1
      const socket = open(
        () => {},
        () => setTimeout(hold, 1_000),
      )
      socket.on('connect', () => socket.write(bytes))
    }
    // As fast as a listener's queue takes them.
    const timer = setInterval(() => {
      for (let count = 0; count < 20 && begun < order.connections; count += 1) hold()
      if (begun >= order.connections) clearInterval(timer)
    }, 10)
  },
}

/** Begins at the first word, and ends at the next. */
process.once('message', () => {
  const startedMs = performance.now()
  const before = process.cpuUsage()
  process.once('message', () => {
    const seconds = (performance.now() - startedMs) / 1_000
    const { user, system } = process.cpuUsage(before)
    const told: Told = { begun, statuses, seconds, cpuShare: (user + system) / 1_000_000 / seconds }
    process.send?.(told, () => process.exit())
  })
  attacks[order.kind]()
})
process.on('disconnect', () => process.exit())
process.send?.('ready')
