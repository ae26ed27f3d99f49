import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Manifest, makeFolder, type Ran, run } from '../../support/deploy.ts'
import { until } from '../../support/gateway.ts'
import type { Owner } from '../../support/owner.ts'
import { type CallApi, type ControlPlane, clusterPrograms } from './control-plane.ts'
import { addressOf } from './kubelet.ts'

export type Namespace = Readonly<{
  callApi: CallApi
  /** Variables for Helm and kubectl. */
  env: Readonly<Record<string, string>>
  kubectl: (...args: readonly string[]) => Promise<Ran>
}>

/** Makes the namespace of the kubeconfig, which admits restricted pods alone. */
export async function openNamespace(owner: Owner, { kubeconfig, callApi }: ControlPlane): Promise<Namespace> {
  const metadata = { name: 'edge', labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } }
  await callApi('POST', '/api/v1/namespaces', { kind: 'Namespace', apiVersion: 'v1', metadata })
  const account = () => callApi('GET', '/api/v1/namespaces/edge/serviceaccounts/default')
  await until(async () => (await account()).kind === 'ServiceAccount', 'the default account of the namespace')
  const folder = makeFolder(owner)
  const env = { KUBECONFIG: kubeconfig, HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder }
  return { callApi, env, kubectl: (...args) => run(join(clusterPrograms, 'kubectl'), args, { env }) }
}

export async function waitForRollout({ kubectl }: Namespace, deployment: string): Promise<void> {
  const { code, stdout, stderr } = await kubectl('rollout', 'status', `deployment/${deployment}`, '--timeout=60s')
  if (code === 0) return
  const pods = await kubectl('describe', 'pods')
  throw new Error(`${stdout}${stderr}${pods.stdout}`)
}

/** The addresses of ready pods, as the Service's EndpointSlices have them. */
export async function followService(owner: Owner, callApi: CallApi, service: string): Promise<() => readonly string[]> {
  let addresses: readonly string[] = []
  const path = `/apis/discovery.k8s.io/v1/namespaces/edge/endpointslices?labelSelector=kubernetes.io/service-name%3D${service}`
  const read = async (): Promise<void> => {
    const { items } = await callApi('GET', path)
    addresses = items
      .flatMap(({ endpoints }: Manifest) => endpoints ?? [])
      .filter(({ conditions }: Manifest) => conditions.ready)
      .map(({ addresses }: Manifest) => addressOf(addresses[0]))
  }
  let isOver = false
  const work = async (): Promise<void> => {
    while (!isOver) {
      await read()
      await sleep(100)
    }
  }
  await read()
  const worked = work()
  owner.teardown(() => {
    isOver = true
    return worked
  })
  return () => addresses
}

/** Plays kube-proxy: takes connections for the Service, passes each to a ready pod, and resolves to the address. */
export async function leadToService(owner: Owner, addresses: () => readonly string[], port: number): Promise<string> {
  let count = 0
  const server = createServer((client) => {
    const ready = addresses()
    const host = ready[count++ % ready.length]
    if (host === undefined) {
      client.resetAndDestroy()
      return
    }
    const pod = connect(port, host)
    for (const [one, other] of [
      [client, pod],
      [pod, client],
    ] as const) {
      one.pipe(other)
      one.on('error', () => other.destroy())
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => server.close())
  const { port: own } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `127.0.0.1:${own}`
}
