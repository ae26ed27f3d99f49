import { Agent } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { reportProgress } from '../../fuzz/report-progress.ts'
import { call } from '../../support/client.ts'
import { openRoute, startTestGateway } from '../../support/gateway.ts'
import { composeAnswer, cutAnswer, drawing, judgeAnswer, type Verdict } from './planned-answers.ts'

/** Clients that work side by side, each on a connection that it keeps. */
const clientCount = 24

/** Longer than any answer takes on a busy machine. */
const patienceMs = 30_000

type Planned = Readonly<{ packets: readonly string[]; verdict: Verdict }>

const planned = new Map<string, Planned>()

/** Writes the packets apart, and ends the connection where only its end tells that no more will come. */
async function answer(socket: Socket, { packets, verdict }: Planned): Promise<void> {
  for (const packet of packets) {
    socket.write(Buffer.from(packet, 'latin1'))
    if (packets.length > 1) await turn()
  }
  if (verdict.kind === 'closed' || verdict.kind === 'cut') socket.end()
}

const backend = createServer({ noDelay: true }, (socket) => {
  let head = ''
  socket.on('error', () => undefined)
  socket.on('data', (bytes) => {
    head += bytes.toString('latin1')
    if (!head.endsWith('\r\n\r\n')) return
    const plan = planned.get(head.split(' ')[1] ?? '')
    head = ''
    // A request that nothing planned would be one of the gateway's own making.
    if (plan) answer(socket, plan).catch(() => socket.destroy())
    else socket.destroy()
  })
})
await new Promise<void>((resolve) => backend.listen(0, '127.0.0.1', resolve))
t.teardown(() => backend.close())

const { port } = backend.address() as { port: number }
const gateway = await startTestGateway(t, {
  routes: [openRoute],
  upstreams: { platform: { url: `http://127.0.0.1:${port}` } },
})

type Outcome = Readonly<{ status: number; text: string }> | 'broken' | 'hung'

async function ask(path: string, method: 'GET' | 'HEAD', agent: Agent): Promise<Outcome> {
  let timer: NodeJS.Timeout | undefined
  const hung = new Promise<'hung'>((resolve) => {
    timer = setTimeout(resolve, patienceMs, 'hung')
  })
  const asked = call(gateway.public, { path, method, agent }).then(
    ({ status, text }): Outcome => ({ status, text }),
    () => 'broken' as const,
  )
  try {
    return await Promise.race([asked, hung])
  } finally {
    clearTimeout(timer)
  }
}

/** A cut body is a broken response, or 503 where it broke before the head was sent. Never is it a whole one. */
function agrees(outcome: Outcome, verdict: Verdict): boolean {
  if (outcome === 'hung') return false
  if (outcome === 'broken') return verdict.kind === 'cut'
  if (verdict.kind === 'refused' || verdict.kind === 'cut') return outcome.status === 503
  return outcome.status === verdict.status && outcome.text === verdict.body
}

const campaign = Number(process.env.CAMPAIGN) || 0

// RFC 9112 5.1, 6.1-6.3, 7.1 and RFC 9110 15.2, against a reader of whole texts.
t.test(
  'a client gets a generated answer decoded, broken off or as 503, as the oracle says',
  { timeout: 0 },
  async (t) => {
    const count = campaign || 1_500
    const seed = Number(process.env.SEED ?? (campaign ? Date.now() % 1e9 : 20_261))
    const draw = drawing(seed)
    const all = Array.from({ length: count }).keys()
    const numbers = campaign ? reportProgress(all, `answers, seed ${seed}`) : all
    const kinds: Record<string, number> = { whole: 0, closed: 0, cut: 0, refused: 0 }
    let hung = 0
    const work = Array.from({ length: clientCount }, async () => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      for (let next = numbers.next(); !next.done; next = numbers.next()) {
        const method = draw('GET', 'GET', 'GET', 'HEAD')
        const text = composeAnswer(draw, method)
        const verdict = judgeAnswer(text, method)
        const path = `/answers/${next.value}`
        planned.set(path, { packets: cutAnswer(text, draw), verdict })
        const outcome = await ask(path, method, agent)
        planned.delete(path)
        kinds[verdict.kind] = (kinds[verdict.kind] ?? 0) + 1
        if (outcome === 'hung') hung += 1
        if (!agrees(outcome, verdict))
          t.same(outcome, verdict, `seed ${seed}, ${next.value}: ${method} ${JSON.stringify(text)}`)
      }
      agent.destroy()
    })
    await Promise.all(work)
    if (campaign) console.error(`answers, seed ${seed}: ${JSON.stringify(kinds)}`)
    t.equal(hung, 0, 'no client waits')
    for (const [kind, met] of Object.entries(kinds)) t.ok(met > count / 50, `${met} were ${kind}`)
  },
)
