import type { Test } from 'tap'
import type { EngineName } from './engine.ts'
import { openRawClient, openRoute, startTestGateway, until } from './gateway.ts'
import { startParsingBackend } from './parsed-requests.ts'
import { splitRequests } from './split-requests.ts'

/** What came of some bytes: each answer, whether the connection was closed, and each request that the upstream got. */
export type Outcome = Readonly<{ answers: readonly string[]; isClosed: boolean; arrived: readonly string[] }>

/** How long nothing must come after an answer before the exchange counts as over; the latter where that was too short. */
const quietMs = 80
const longQuietMs = 1_000

type Settings = Readonly<Record<string, unknown>>

/** Sends the same bytes, in so many packets, to either engine, and tells what came of them. */
export type SendToBoth = (t: Test, packets: readonly Buffer[]) => Promise<Readonly<Record<EngineName, Outcome>>>

/** Two gateways that differ in their engine alone, each with an upstream of its own. */
export async function startBothEngines(t: Test, settings: Settings = {}): Promise<SendToBoth> {
  const [node, wire] = await Promise.all([startSide(t, 'node', settings), startSide(t, 'wire', settings)])
  return async (t, packets) => {
    const both = async (quietMs: number) => {
      const outcomes = await Promise.all([node(t, packets, quietMs), wire(t, packets, quietMs)])
      return { node: outcomes[0], wire: outcomes[1] }
    }
    const outcomes = await both(quietMs)
    // On a busy machine one of them may just have been slow.
    return JSON.stringify(outcomes.node) === JSON.stringify(outcomes.wire) ? outcomes : both(longQuietMs)
  }
}

async function startSide(t: Test, engine: EngineName, settings: Settings) {
  const backend = await startParsingBackend(t)
  const gateway = await startTestGateway(t, {
    routes: [openRoute],
    upstreams: { platform: { url: backend.url, preserveHost: true } },
    settings: { engine, timeouts: { bodyIdleMs: 400, headersMs: 600 }, ...settings },
  })
  return async (t: Test, packets: readonly Buffer[], quietMs: number): Promise<Outcome> => {
    backend.clear()
    const client = await openRawClient(t, gateway.public)
    let isClosed = false
    client.socket.once('close', () => {
      isClosed = true
    })
    let lastMs = performance.now()
    client.socket.on('data', () => {
      lastMs = performance.now()
    })
    for (const packet of packets) {
      client.send(packet)
      // Long enough for loopback to deliver it alone, mostly.
      if (packets.length > 1) await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await until(
      () => isClosed || (client.text() !== '' && performance.now() - lastMs > quietMs),
      'an answer, or the end',
    )
    client.socket.destroy()
    const arrived = backend.connections().flatMap((connection) => splitRequests(connection.bytes))
    return { answers: splitAnswers(client.text()), isClosed, arrived: arrived.map(withoutIds).sort() }
  }
}

const uuid = /[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g

const withoutIds = (text: string): string => text.replace(uuid, '<made>')

/** The lines of a head in one order and spelling: only the engines' own lines differ in either. */
function splitAnswers(text: string): readonly string[] {
  return withoutIds(text)
    .replace(/^date: .*\r\n/gim, '')
    .split(/(?=HTTP\/1\.1 \d{3} )/)
    .map((answer) => {
      const end = answer.indexOf('\r\n\r\n')
      const [first = '', ...lines] = answer.slice(0, end).split('\r\n')
      const sorted = lines.map((line) => line.replace(/^[^:]*/, (name) => name.toLowerCase())).sort()
      return [first, ...sorted, answer.slice(end)].join('\n')
    })
    .filter((answer) => answer.trim() !== '')
}
