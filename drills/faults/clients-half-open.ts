import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { namespaceLack, type OtherMachine, startOtherMachine } from '../../test/spec/network-namespace.ts'
import { until } from '../../test/support/gateway.ts'
import { startTcpProxy } from '../../test/support/tcp-proxy.ts'
import type { Drill, Finding } from '../drill.ts'
import { type DrillFixture, resumeAnswers } from '../fixture.ts'

/**
 * `vanished` are on a machine whose packets are lost from then on. The sockets of `stopped` stay, and their programs read
 * nothing more, so that the buffers of both systems fill. `healthy` read everything.
 */
const kinds = ['vanished', 'stopped', 'healthy'] as const

type Kind = (typeof kinds)[number]

const counts: Readonly<Record<Kind, number>> = { vanished: 30, stopped: 5, healthy: 10 }

const clientIdleMs = 2_000

/** Half more than `clientIdleMs`, and the time in which buffers fill. */
const boundMs = 6_000

const eventMs = 100

/** The streams that the upstream sends. */
type Streams = Readonly<{
  open: Readonly<Record<Kind, Set<ServerResponse>>>
  /** The end of the latest of its kind, by `performance.now()`. */
  endedMs: Map<Kind, number>
  send: (response: ServerResponse, kind: Kind) => void
}>

function createStreams(): Streams {
  const open = {
    vanished: new Set<ServerResponse>(),
    stopped: new Set<ServerResponse>(),
    healthy: new Set<ServerResponse>(),
  }
  const endedMs = new Map<Kind, number>()
  return {
    open,
    endedMs,
    send: (response, kind) => {
      open[kind].add(response)
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const timer = setInterval(() => {
        if (!response.writableNeedDrain) response.write('data: {}\n\n')
      }, eventMs)
      response.on('close', () => {
        clearInterval(timer)
        open[kind].delete(response)
        endedMs.set(kind, performance.now())
      })
    },
  }
}

/** Sends as much as the client takes. */
function flood(response: ServerResponse): void {
  const event = `data: ${'x'.repeat(65_536)}\n\n`
  const fill = (): void => {
    while (!response.destroyed && response.write(event));
  }
  response.on('drain', fill)
  fill()
}

const streamsOf = ({ notes }: DrillFixture): Streams => notes.get('streams') as Streams

const clientsOf = ({ notes }: DrillFixture): readonly Socket[] => notes.get('clients') as readonly Socket[]

const head = (kind: Kind): string => `GET /status HTTP/1.1\r\nHost: a\r\nX-Drill-Stream: ${kind}\r\n\r\n`

/** Opens streams from this machine; their bytes are counted by `bytesRead`. */
function openClients(fixture: DrillFixture, kind: Kind, port: number, host: string): readonly Socket[] {
  return Array.from({ length: counts[kind] }, () => {
    const socket = connect({ port, host })
    fixture.owner.teardown(() => socket.destroy())
    socket.on('error', () => undefined)
    socket.write(head(kind))
    return socket.resume()
  })
}

async function openAll(fixture: DrillFixture): Promise<() => void> {
  const { hostname, port } = new URL(fixture.gateway().public)
  const machine = fixture.notes.get('machine') as OtherMachine
  const wire = await startTcpProxy(fixture.owner, { host: hostname, port: Number(port) })
  openClients(fixture, 'stopped', wire.port, '127.0.0.1')
  fixture.notes.set('clients', openClients(fixture, 'healthy', Number(port), hostname))
  machine.run(`for (let count = 0; count < ${counts.vanished}; count++)
    require('node:net').connect(${port}, '${hostname}', function () { this.write(${JSON.stringify(head('vanished'))}) }).resume()`)
  const { open } = streamsOf(fixture)
  await until(() => kinds.every((kind) => open[kind].size === counts[kind]), 'the streams', 20_000)
  return () => {
    machine.vanish()
    wire.freeze()
  }
}

export const drill: Drill = {
  about: 'clients of streams are gone without a word: packets of 30 are lost, and 5 read nothing more',
  cells: [],
  findLack: () => namespaceLack,
  prepare: (fixture) => {
    const { owner, upstream, notes } = fixture
    const machine = startOtherMachine(owner)
    const streams = createStreams()
    notes.set('machine', machine)
    notes.set('streams', streams)
    upstream.answer((response) => {
      const kind = kinds.find((name) => name === response.req.headers['x-drill-stream'])
      if (kind) streams.send(response, kind)
      else response.end('ok')
    })
    const [local, reached] = [
      { host: '127.0.0.1', port: 0 },
      { host: machine.here, port: 0 },
    ]
    const listeners = { public: reached, decision: local, admin: local }
    return { settings: { listeners, timeouts: { clientIdleMs } } }
  },
  begin: async (fixture) => {
    const cutOff = await openAll(fixture)
    cutOff()
    fixture.notes.set('goneMs', performance.now())
    for (const response of streamsOf(fixture).open.stopped) flood(response)
  },
  end: (fixture) => {
    for (const client of clientsOf(fixture)) client.destroy()
    resumeAnswers(fixture)
  },
  lookDuring: async (fixture) => {
    const { open, endedMs } = streamsOf(fixture)
    const goneMs = Number(fixture.notes.get('goneMs'))
    const gone = (['vanished', 'stopped'] as const).map((kind): Finding => {
      const tookMs = (endedMs.get(kind) ?? Number.POSITIVE_INFINITY) - goneMs
      const seen = open[kind].size > 0 ? `${open[kind].size} are not` : `${tookMs.toFixed(0)} ms`
      const isMet = open[kind].size === 0 && tookMs <= boundMs
      return { check: `${kind} clients are cut after`, seen, limit: `<= ${boundMs} ms`, isMet }
    })
    const clients = clientsOf(fixture)
    const before = clients.map(({ bytesRead }) => bytesRead)
    await until(
      () => clients.every(({ bytesRead }, index) => bytesRead > (before[index] ?? 0)),
      'an event each',
      2_000,
    ).catch(() => undefined)
    const served = clients.filter(({ bytesRead }, index) => bytesRead > (before[index] ?? 0)).length
    const healthy = { check: 'streams of the others go on', seen: `${served}`, limit: `${counts.healthy}` }
    return [...gone, { ...healthy, isMet: served === counts.healthy }]
  },
}
