import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonValue } from '../../support/client.ts'
import { type Manifest, makeFolder } from '../../support/deploy.ts'
import type { Owner } from '../../support/owner.ts'
import { contentsOfPod } from '../../support/pod.ts'
import type { CallApi, ControlPlane } from './control-plane.ts'
import { type ContainerProcess, type Place, probe, startContainer, writeVolumes } from './pod-process.ts'

const namespace = 'edge'
const node = 'node'
const pollMs = 100
/** A kubelet would wait 10 s the first time. */
const crashBackoffMs = 3_000

type Pod = {
  readonly manifest: Manifest
  readonly place: Place
  readonly ip: string
  run: ContainerProcess | undefined
  lastLog: string
  lastState: JsonValue
  restarts: number
  isStarted: boolean
  isReady: boolean
  /** The time at which it became ready, or ceased to be. */
  changedAt: string
  isStopping: boolean
  phase: string
  state: JsonValue
  reported: string
}

/**
 * Plays the scheduler and the one node. It runs the command of each pod as a process, probes it, reports its state, follows
 * its ConfigMaps and Secrets, and gives its log. Kubernetes takes no address of loopback for a pod: 10.77.0.N is 127.77.0.N.
 */
export async function startKubelet(
  owner: Owner,
  { callApi, kubelet: tls }: ControlPlane,
  services: NonNullable<Place['services']> = {},
): Promise<void> {
  const pods = new Map<string, Pod>()
  await registerNode(owner, callApi, tls, pods)
  let isOver = false
  const work = async (): Promise<void> => {
    while (!isOver) {
      // As a kubelet does: what fails is said, and tried again.
      await sync(
        (manifest) => createPod(owner, manifest, services),
        callApi,
        pods,
        () => isOver,
      ).catch((error) => console.error(error))
      await sleep(pollMs)
    }
  }
  const worked = work()
  owner.teardown(async () => {
    isOver = true
    for (const { run } of pods.values()) run?.child.kill('SIGKILL')
    await worked
    await Promise.all([...pods.values()].map(({ run }) => run?.ended))
  })
}

/** The address where a pod's process listens. */
export const addressOf = (podIp: string): string => podIp.replace(/^10\./, '127.')

async function registerNode(
  owner: Owner,
  callApi: CallApi,
  { cert, key }: ControlPlane['kubelet'],
  pods: ReadonlyMap<string, Pod>,
): Promise<void> {
  const server = createServer({ cert, key }, (request, response) => {
    const [, , , name] = (request.url ?? '').split(/[/?]/)
    const pod = [...pods.values()].find(({ manifest }) => manifest.metadata.name === name)
    response.statusCode = pod ? 200 : 404
    response.end(pod?.run?.log() || pod?.lastLog)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const status = {
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
    conditions: [{ type: 'Ready', status: 'True' }],
  }
  await callApi('POST', '/api/v1/nodes', { kind: 'Node', apiVersion: 'v1', metadata: { name: node }, status })
}

let given = 0

async function sync(
  create: (manifest: Manifest) => Pod,
  callApi: CallApi,
  pods: Map<string, Pod>,
  isOver: () => boolean,
): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/pods`
  const { items = [] } = await callApi('GET', path)
  const volumes = await readVolumes(callApi)
  for (const manifest of items) {
    const { uid, name, deletionTimestamp } = manifest.metadata
    const pod = pods.get(uid)
    if (pod === undefined && deletionTimestamp === undefined) {
      await callApi('POST', `${path}/${name}/binding`, {
        ...{ kind: 'Binding', apiVersion: 'v1', metadata: { name } },
        target: { apiVersion: 'v1', kind: 'Node', name: node },
      })
      pods.set(uid, create(manifest))
      void keepRunning(pods.get(uid) as Pod, volumes, isOver) // set one line above
    } else if (pod !== undefined) {
      if (deletionTimestamp !== undefined) await stopPod(pod, callApi, path)
      else {
        await report(pod, callApi, path)
        follow(pod, volumes)
      }
    }
  }
}

function createPod(owner: Owner, manifest: Manifest, services: NonNullable<Place['services']>): Pod {
  const ip = `10.77.0.${++given}`
  return {
    ...{ manifest, ip, place: { address: addressOf(ip), root: makeFolder(owner), services } },
    ...{ run: undefined, lastLog: '', lastState: {}, restarts: 0, reported: '', phase: 'Pending' },
    ...{ isStarted: false, isReady: false, isStopping: false, changedAt: new Date().toISOString() },
    state: { waiting: { reason: 'ContainerCreating' } },
  }
}

type Volumes = Readonly<{
  version: string
  configMaps: readonly Manifest[]
  secrets: Readonly<Record<string, Record<string, string>>>
}>

async function readVolumes(callApi: CallApi): Promise<Volumes> {
  const list = (kind: string): Promise<JsonValue> => callApi('GET', `/api/v1/namespaces/${namespace}/${kind}`)
  const [configMaps, secrets] = await Promise.all([list('configmaps'), list('secrets')])
  const decode = (data: Readonly<Record<string, string>> = {}): Record<string, string> =>
    Object.fromEntries(Object.entries(data).map(([name, text]) => [name, Buffer.from(text, 'base64').toString()]))
  return {
    version: [...configMaps.items, ...secrets.items].map(({ metadata }) => metadata.resourceVersion).join(),
    configMaps: configMaps.items.map((one: Manifest) => ({ ...one, kind: 'ConfigMap' })),
    secrets: Object.fromEntries(secrets.items.map(({ metadata, data }: Manifest) => [metadata.name, decode(data)])),
  }
}

const followed = new WeakMap<Pod, string>()

function follow(pod: Pod, volumes: Volumes): void {
  if (followed.get(pod) === volumes.version || !pod.manifest.spec.volumes) return
  followed.set(pod, volumes.version)
  // A job's ConfigMaps go with it.
  if (pod.manifest.spec.restartPolicy === 'Always')
    writeVolumes(contentsOfPod(pod.manifest.spec, volumes.configMaps, volumes.secrets), pod.place)
}

async function keepRunning(pod: Pod, volumes: Volumes, isOver: () => boolean): Promise<void> {
  const { spec } = pod.manifest
  writeVolumes(contentsOfPod(spec, volumes.configMaps, volumes.secrets), pod.place)
  while (!pod.isStopping && !isOver()) {
    const startedAt = new Date().toISOString()
    const run = startContainer(spec.containers[0], pod.place)
    Object.assign(pod, { run, phase: 'Running', state: { running: { startedAt } }, isStarted: false })
    const probed = watchProbes(pod, run)
    const exitCode = await run.ended
    await probed
    pod.run = undefined
    pod.lastLog = run.log()
    const terminated = {
      ...{ exitCode, startedAt, finishedAt: new Date().toISOString(), reason: exitCode === 0 ? 'Completed' : 'Error' },
      ...(exitCode !== 0 && { message: messageOf(spec.containers[0], pod.lastLog) }),
    }
    if (spec.restartPolicy === 'Never') {
      Object.assign(pod, { phase: exitCode === 0 ? 'Succeeded' : 'Failed', state: { terminated } })
      return
    }
    pod.restarts += 1
    pod.lastState = { terminated }
    pod.state = { waiting: { reason: 'CrashLoopBackOff' } }
    await sleep(crashBackoffMs)
  }
}

/** The end of the log, where the container asks for it: 80 lines or 2048 bytes. */
const messageOf = ({ terminationMessagePolicy }: Manifest, log: string): string =>
  terminationMessagePolicy === 'FallbackToLogsOnError' ? log.split('\n').slice(-80).join('\n').slice(-2_048) : ''

async function watchProbes(pod: Pod, run: ContainerProcess): Promise<void> {
  const [container] = pod.manifest.spec.containers
  const { startupProbe, readinessProbe } = container
  if (!readinessProbe) return
  const isRunning = (): boolean => run.child.exitCode === null && run.child.signalCode === null
  while (isRunning()) {
    const current = pod.isStarted ? readinessProbe : startupProbe
    const isGood = await probe(container, current, pod.place)
    if (pod.isStarted) setReady(pod, isGood)
    else pod.isStarted = isGood
    // The first readiness probe follows the startup probe at once.
    if (!(pod.isStarted && current === startupProbe))
      await Promise.race([run.ended, sleep(current.periodSeconds * 1_000)])
  }
  setReady(pod, false)
}

function setReady(pod: Pod, isReady: boolean): void {
  if (pod.isReady !== isReady) pod.changedAt = new Date().toISOString()
  pod.isReady = isReady
}

async function report(pod: Pod, callApi: CallApi, path: string): Promise<void> {
  const { metadata, spec } = pod.manifest
  const { state, lastState, ip, isReady, isStarted, restarts: restartCount, phase } = pod
  const [{ name, image }] = spec.containers
  const lastTransitionTime = pod.changedAt
  const isWhole = isReady ? 'True' : 'False'
  const conditions = ['ContainersReady', 'Ready'].map((type) => ({ type, status: isWhole, lastTransitionTime }))
  const status = {
    ...{ phase, podIP: ip, podIPs: [{ ip }], hostIP: '127.0.0.1', conditions },
    containerStatuses: [
      { name, image, imageID: image, ready: isReady, started: isStarted, restartCount, state, lastState },
    ],
  }
  const text = JSON.stringify(status)
  if (text === pod.reported) return
  pod.reported = text
  await callApi('PATCH', `${path}/${metadata.name}/status`, { status })
}

/** The first call sends SIGTERM; one after the process has ended removes the pod. */
async function stopPod(pod: Pod, callApi: CallApi, path: string): Promise<void> {
  if (!pod.isStopping) {
    pod.isStopping = true
    pod.run?.child.kill('SIGTERM')
  }
  if (pod.run === undefined) await callApi('DELETE', `${path}/${pod.manifest.metadata.name}`, { gracePeriodSeconds: 0 })
}
