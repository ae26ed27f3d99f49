import { spawn } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { existsSync, writeFileSync } from 'node:fs'
import { Agent, request as httpsRequest } from 'node:https'
import { join } from 'node:path'
import { findFreePort } from '../../../demo/free-port.ts'
import { createAuthority, type Issued, ownNames } from '../../support/certificates.ts'
import type { JsonValue } from '../../support/client.ts'
import { makeFolder, repository } from '../../support/deploy.ts'
import { endWithThisProcess } from '../../support/end-with-this-process.ts'
import { until } from '../../support/gateway.ts'
import type { Owner } from '../../support/owner.ts'

const folder = join(repository, '.sallyport', 'cluster')
const programOf = (name: string): string => join(folder, name)
const programs = ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kubectl']

/** The folder of kubectl, for PATH. */
export const clusterPrograms = folder

const missing = programs.filter((name) => !existsSync(programOf(name)))
export const clusterLack =
  missing.length === 0 ? undefined : `${missing.join(' and ')} missing: run scripts/install-tools.js cluster`

/** Sends a request to the API server; throws unless it succeeds or the object is gone. */
export type CallApi = (method: string, path: string, body?: JsonValue) => Promise<JsonValue>

export type ControlPlane = Readonly<{
  kubeconfig: string
  callApi: CallApi
  /** A certificate that the API server trusts, for a kubelet. */
  kubelet: Issued
}>

/** The controllers that act on pods, beside the kubelet of the test. */
const controllers = ['deployment', 'replicaset', 'job', 'endpointslice', 'serviceaccount']

/** Starts etcd, the API server of Kubernetes and its controllers. */
export async function startControlPlane(owner: Owner): Promise<ControlPlane> {
  const place = makeFolder(owner)
  const [etcdPort, peerPort, port] = await Promise.all([findFreePort(), findFreePort(), findFreePort()])
  const authority = createAuthority(owner)
  const server = authority.issue(ownNames)
  const [etcd, peer, url] = [etcdPort, peerPort, port].map((number) => `://127.0.0.1:${number}`)
  const logs = startProgram(owner, 'etcd', {
    'data-dir': join(place, 'etcd'),
    'listen-client-urls': `http${etcd}`,
    'advertise-client-urls': `http${etcd}`,
    'listen-peer-urls': `http${peer}`,
    'unsafe-no-fsync': 'true',
  })
  const token = 'operator'
  writeFileSync(join(place, 'tokens'), `${token},operator,1,"system:masters"\n`)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  writeFileSync(join(place, 'accounts'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
  const log = startProgram(owner, 'kube-apiserver', {
    'etcd-servers': `http${etcd}`,
    'bind-address': '127.0.0.1',
    'secure-port': String(port),
    'endpoint-reconciler-type': 'none',
    'tls-cert-file': server.certFile,
    'tls-private-key-file': server.keyFile,
    'kubelet-certificate-authority': authority.certFile,
    'cert-dir': place,
    'token-auth-file': join(place, 'tokens'),
    'authorization-mode': 'RBAC',
    'service-account-issuer': 'https://kubernetes.default.svc',
    'service-account-key-file': join(place, 'accounts'),
    'service-account-signing-key-file': join(place, 'accounts'),
    'service-cluster-ip-range': '10.76.0.0/24',
  })
  const callApi = speakTo({ port, ca: authority.cert, token })
  const isReady = (): Promise<boolean> =>
    callApi('GET', '/readyz').then(
      () => true,
      () => false,
    )
  await until(isReady, 'an API server', 60_000).catch((cause) => {
    throw new Error(`${logs()}${log()}`, { cause })
  })
  const kubeconfig = join(place, 'kubeconfig')
  const cluster = { server: `https${url}`, 'certificate-authority': authority.certFile }
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster }],
      users: [{ name: 'operator', user: { token } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'operator', namespace: 'edge' } }],
      'current-context': 'test',
    }),
  )
  startProgram(owner, 'kube-controller-manager', {
    kubeconfig,
    controllers: controllers.map((name) => `${name}-controller`).join(),
    'leader-elect': 'false',
    'secure-port': '0',
  })
  return { kubeconfig, callApi, kubelet: authority.issue(ownNames) }
}

/** Runs a program of the control plane until its owner ends; gives what it logged. */
function startProgram(owner: Owner, name: string, flags: Readonly<Record<string, string>>): () => string {
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`)
  const child = spawn(programOf(name), args, { stdio: ['ignore', 'ignore', 'pipe'] })
  endWithThisProcess(child)
  const ended = new Promise((resolve) => child.on('close', resolve))
  const lines: string[] = []
  child.stderr.on('data', (chunk: Buffer) => {
    lines.push(chunk.toString())
    if (lines.length > 100) lines.shift()
  })
  owner.teardown(() => {
    child.kill('SIGKILL')
    return ended
  })
  return () => lines.join('')
}

function speakTo({ port, ca, token }: Readonly<{ port: number; ca: string; token: string }>): CallApi {
  const agent = new Agent({ keepAlive: true, ca })
  return (method, path, body) =>
    new Promise((resolve, reject) => {
      const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
      const text = body === undefined ? '' : JSON.stringify(body)
      // node:http frames no body of DELETE by itself.
      const framing = { 'content-type': type, 'content-length': Buffer.byteLength(text) }
      const headers = { authorization: `Bearer ${token}`, ...framing }
      const request = httpsRequest({ agent, port, host: '127.0.0.1', method, path, headers }, (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => {
          const answer = Buffer.concat(chunks).toString()
          const { statusCode: status = 0 } = response
          if (status >= 300 && status !== 404) reject(new Error(`${method} ${path}: ${status} ${answer}`))
          else resolve(answer.startsWith('{') ? JSON.parse(answer) : answer)
        })
      })
      request.on('error', reject)
      request.end(text)
    })
}
