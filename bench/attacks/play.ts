import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type pg from 'pg'
import type { World } from '../../demo/world.ts'
import { type Owner, withOwner } from '../../test/support/owner.ts'
import { type Replica, serveFile } from '../../test/support/replicas.ts'
import { bearer, oauth } from '../../test/support/world.ts'
import type { Checkout } from '../compare/checkout.ts'
import { writeMinimal } from '../compare/configure.ts'
import { listTree, readCpuMicros } from '../peers/cpu-time.ts'
import { findNginxLack, startNginxAttacked } from '../peers/nginx.ts'
import { measuredCore } from '../peers/peer.ts'
import { addClusters, addMembers } from '../prepare-subjects.ts'
import { setAside } from '../slow-attack.ts'
import { createContainer, readPeakRss } from './container.ts'
import { type Fared, type Honest, type HonestRequest, openHonest, probe } from './honest.ts'
import type { Outcome } from './judge.ts'
import { type Attack, attackerAddresses } from './list.ts'
import type { Order, Told } from './order.ts'

export type Ground = Readonly<{
  world: World['description']
  database: pg.Client
  backendPort: number
  checkout: Checkout
  /** The length of each measured part. */
  seconds: number
  /** Seconds of load before anything is measured. */
  warmUp: number
  /** Honest requests a second. */
  rate: number
  /** The part of each attack that is played: 1 is all of it. */
  scale: number
  notify: (sentence: string) => void
  interruption: AbortSignal
}>

/** A tenth of the attack runs this long first, so that no figure has the compilation of the code that serves it. */
const foretasteSeconds = 1

/** Measures honest clients of a new gateway, without the attack and under it; then those of an nginx under it. */
export async function play(attack: Attack, ground: Ground): Promise<Outcome> {
  return withOwner(async (owner) => {
    const { notify, seconds, warmUp, rate, scale, interruption } = ground
    const scaled = (part: number): Attack['order'] => ({
      ...attack.order,
      connections: Math.ceil(attack.order.connections * part),
      ...(attack.order.perSecond && { perSecond: Math.ceil(attack.order.perSecond * part) }),
    })
    const cluster = attack.cluster && (await startCluster(owner, attack.cluster, ground))
    const container = createContainer(owner)
    if (!container) notify('no cgroup can be made here: memory is counted, and not limited')
    const agents = attack.cluster === 'blank-lines' ? cluster : undefined
    const gateway = await startGateway(owner, attack, ground, { node: container?.node, agentsPort: agents?.port })
    const order = (origin: string, part: number): Order => ({
      ...scaled(part),
      origin,
      addresses: attackerAddresses,
      databaseUrl: ground.world.databaseUrl,
      ...(cluster && { path: cluster.path, headers: cluster.headers }),
    })
    const next = await prepareOthers(attack, ground)
    const others = openHonest(owner, gateway.public, interruption)
    // A prober and a scraper ask in quiet too, since their share of the processor is not the attack's doing.
    const askProbed = async (): Promise<readonly [Fared, number]> => {
      const asked = others.ask(next, rate, seconds)
      const adminMs = await probe(owner, gateway.admin, asked)
      return [await asked, adminMs]
    }
    await others.ask(next, rate, warmUp)
    notify(`${attack.name}: in quiet`)
    const [quiet] = await askProbed()
    await during(order(gateway.public, scale / 10), () => others.ask(next, rate, foretasteSeconds))
    notify(`${attack.name}: ${attack.what}`)
    const [startedMs, startedMicros] = [performance.now(), readCpuMicros([gateway.pid])]
    const [[attacked, adminMs], told] = await during(order(gateway.public, scale), askProbed)
    const outcome = {
      name: attack.name,
      quiet,
      attacked,
      peakBytes: readPeakRss(gateway.pid),
      adminMs,
      cpuShare: (readCpuMicros([gateway.pid]) - startedMicros) / 1_000 / (performance.now() - startedMs),
      isAlive: isThere(gateway.pid) && container?.hasKilled() !== true,
      told,
      order: scaled(scale),
    }
    await gateway.kill()
    if (findNginxLack() !== undefined) return { ...outcome, nginx: undefined }
    notify(`${attack.name}: the same against nginx`)
    const nginx = await startNginxAttacked(owner, ground.backendPort, cluster)
    const origin = `http://127.0.0.1:${nginx.port}`
    const othersThere = openHonest(owner, origin, interruption)
    const [faredThere] = await attackNginx(othersThere, { path: '/datasets', headers: {} }, rate, seconds, (part) =>
      order(origin, part * scale),
    )
    return { ...outcome, nginx: faredThere }
  })
}

async function attackNginx(
  others: Honest,
  request: HonestRequest,
  rate: number,
  seconds: number,
  order: (part: number) => Order,
): Promise<readonly [Fared, Told]> {
  await others.ask(() => request, rate, foretasteSeconds)
  await during(order(0.1), () => others.ask(() => request, rate, foretasteSeconds))
  return during(order(1), () => others.ask(() => request, rate, seconds))
}

/** Long, because the attacker gets only idle time of a processor: it reports one message. */
const tellWithinMs = 60_000

/** Attacks while the work runs; resolves to the work's result and the attacker's report. */
async function during<Result>(order: Order, work: () => Promise<Result>): Promise<readonly [Result, Told]> {
  const script = fileURLToPath(new URL('attacker.ts', import.meta.url))
  const loader = `--import=${new URL('../typescript.js', import.meta.url)}`
  const child = fork(script, [JSON.stringify(order)], { execArgv: [loader] })
  try {
    await once(child, 'message')
    // Attackers have machines of their own: here they get only idle time of the other processor.
    setAside(child.pid)
    child.send('begin')
    const result = await work()
    const told = once(child, 'message', { signal: AbortSignal.timeout(tellWithinMs) })
    child.send('stop')
    return [result, (await told)[0] as Told]
  } finally {
    child.kill('SIGKILL')
    // The server gets time to close the attacker's connections before the next measurement.
    await sleep(500)
  }
}

type Cluster = Readonly<{ path: string; port: number; headers: Readonly<Record<string, string>> }>

async function startCluster(
  owner: Owner,
  kind: NonNullable<Attack['cluster']>,
  { database, world }: Ground,
): Promise<Cluster> {
  const loader = `--import=${new URL('../typescript.js', import.meta.url)}`
  const script = fileURLToPath(new URL('hostile-cluster.ts', import.meta.url))
  const child: ChildProcess = fork(script, [kind], { execArgv: [loader] })
  owner.teardown(() => child.kill('SIGKILL'))
  const [port] = (await once(child, 'message')) as [number]
  setAside(child.pid)
  if (kind === 'blank-lines') return { path: '/agent/1/responses', port, headers: oauth(world.users.member) }
  const [id] = await addClusters(database, world, `http://127.0.0.1:${port}`, 1)
  return { path: `/clusters/${id}/proxy/x`, port, headers: bearer(world.serviceAccounts.robot.apiKey) }
}

async function startGateway(
  owner: Owner,
  { settings = {} }: Attack,
  { checkout, world, backendPort }: Ground,
  { node, agentsPort }: Readonly<{ node: string | undefined; agentsPort: number | undefined }>,
): Promise<Replica> {
  const agents = agentsPort === undefined ? {} : { agents: `http://127.0.0.1:${agentsPort}` }
  const urls = { platform: `http://127.0.0.1:${backendPort}`, ...agents }
  const file = writeMinimal(owner, checkout, world, { settings }, urls)
  const replica = await serveFile(owner, file, {}, { ...checkout.build, ...(node && { node }) })
  for (const pid of listTree(replica.pid))
    execFileSync('taskset', ['-a', '-p', '-c', measuredCore, String(pid)], { stdio: 'ignore' })
  return replica
}

/** Makes a function that gives the next honest request: always the same, or each of a caller new to the gateway. */
async function prepareOthers(
  attack: Attack,
  { database, world, rate, seconds, warmUp }: Ground,
): Promise<() => HonestRequest> {
  if (!attack.areOthersNew) {
    const known = { path: '/datasets', headers: oauth(world.users.outsider) }
    return () => known
  }
  const count = rate * (warmUp + 2 * seconds + foretasteSeconds)
  const members = await addMembers(database, world, Math.ceil((count * 3) / 4))
  const requests: HonestRequest[] = members.map(({ headers }) => ({ path: '/datasets', headers }))
  // One in four is a first login.
  for (let index = 3; requests.length < count; index += 4)
    requests.splice(index, 0, { path: '/users/me', headers: oauth(await mint(world, index)) })
  let turn = 0
  return () => {
    const request = requests[turn++]
    if (!request) throw new Error('each prepared caller has had its turn')
    return request
  }
}

async function mint({ oidc }: World['description'], index: number): Promise<{ jwt: string }> {
  const body = JSON.stringify({ sub: `bench-first-${process.pid}-${index}` })
  return (await fetch(oidc.mintUrl, { method: 'POST', body })).json() as Promise<{ jwt: string }>
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
