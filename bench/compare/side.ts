import { execFileSync } from 'node:child_process'
import { leave, openCrowd } from '../../test/support/crowd.ts'
import { startCrowdUpstream } from '../../test/support/crowd-upstream.ts'
import type { Owner } from '../../test/support/owner.ts'
import { type Replica, serveFile } from '../../test/support/replicas.ts'
import { bearer } from '../../test/support/world.ts'
import { createStopwatch } from '../measure-streams.ts'
import { listTree, readCpuMicros } from '../peers/cpu-time.ts'
import { drive } from '../peers/load.ts'
import { measuredCore } from '../peers/peer.ts'
import type { Checkout } from './checkout.ts'
import { type SetUp, writeMinimal } from './configure.ts'
import type { Course } from './pair.ts'
import { type CompareFixture, listRows, type Row, setUps, streamsRow } from './rows.ts'

export type SideOptions = Readonly<{
  backendPort: number
  seconds: number
  connections: number
  /** Seconds of load on a started gateway before it is measured. Requests cost more until V8 has compiled their code. */
  warmUpSeconds: number
  streams: number
  isWanted: (row: string) => boolean
  signal: AbortSignal
}>

/** Starts the gateways of a commit that the wanted rows need, and returns the courses of these rows. */
export async function startSide(
  owner: Owner,
  checkout: Checkout,
  fixture: CompareFixture,
  options: SideOptions,
): Promise<readonly Course[]> {
  const rows = listRows(fixture).filter(({ name }) => options.isWanted(name))
  const isStreaming = options.isWanted(streamsRow)
  const agents = await startCrowdUpstream(owner)
  const wanted = new Set<Row['of']>([...rows.map(({ of }) => of), ...(isStreaming ? (['usual'] as const) : [])])
  const gateways = new Map<Row['of'], Replica>()
  for (const name of wanted)
    gateways.set(name, await startGateway(owner, checkout, fixture, setUps[name], options.backendPort, agents.url))
  const warm = new Set<Replica>()
  /** The first load on a gateway lasts long. Before later ones V8 has only the code of their own row left to compile. */
  const chooseWarmUp = (gateway: Replica): number => {
    const isWarm = warm.has(gateway)
    warm.add(gateway)
    return isWarm ? Math.min(1, options.warmUpSeconds) : options.warmUpSeconds
  }
  const find = (name: Row['of']): Replica => {
    const gateway = gateways.get(name)
    if (!gateway) throw new Error(`there is no gateway ${name}`)
    return gateway
  }
  const courses = rows.map((row): Course => {
    const gateway = find(row.of)
    const asked = { url: gateway[row.listener ?? 'public'] + row.path, headers: row.headers }
    const load = async (seconds: number): Promise<number> => {
      const { requests, failed, refused } = await drive(owner, asked, options.connections, seconds)
      const bad = row.isRefusal ? requests - refused + failed - refused : failed
      if (requests === 0 || bad > requests / 1_000)
        throw new Error(`${row.name}: ${bad} of ${requests} requests of ${checkout.name} had another answer`)
      return requests
    }
    return {
      name: row.name,
      warmUp: () => load(chooseWarmUp(gateway)),
      measure: async () => {
        const before = readCpuMicros([gateway.pid])
        const requests = await load(options.seconds)
        return (readCpuMicros([gateway.pid]) - before) / requests
      },
    }
  })
  if (!isStreaming) return courses
  const gateway = find('usual')
  const stopwatch = createStopwatch(() => performance.now())
  /** Opens streams for each turn anew: a thousand idle streams would slow the other rows. */
  const spray = async (seconds: number): Promise<number> => {
    const clients = await openCrowd(owner, {
      origin: gateway.public,
      path: `/agent/${fixture.world.agents.acme}/responses`,
      headers: bearer(fixture.world.serviceAccounts.robot.apiKey),
      count: options.streams,
      hear: stopwatch.hear,
    })
    const before = readCpuMicros([gateway.pid])
    const events = await stopwatch.spray([...agents.streams], seconds, eventsPerSecond, options.signal)
    const cost = (readCpuMicros([gateway.pid]) - before) / events
    leave(clients)
    return cost
  }
  return [
    ...courses,
    { name: streamsRow, warmUp: () => spray(chooseWarmUp(gateway)), measure: () => spray(options.seconds) },
  ]
}

/** The rate of all streams of a side together. */
const eventsPerSecond = 5_000

async function startGateway(
  owner: Owner,
  checkout: Checkout,
  fixture: CompareFixture,
  setUp: SetUp,
  backendPort: number,
  agents: string,
): Promise<Replica> {
  const file = writeMinimal(owner, checkout, fixture.world, setUp, {
    platform: `http://127.0.0.1:${backendPort}`,
    agents,
  })
  const replica = await serveFile(owner, file, {}, checkout.build)
  for (const pid of listTree(replica.pid))
    execFileSync('taskset', ['-a', '-p', '-c', measuredCore, String(pid)], { stdio: 'ignore' })
  return replica
}
