import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, readdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { call } from '../../support/client.ts'
import { type Manifest, repository } from '../../support/deploy.ts'
import { endWithThisProcess } from '../../support/end-with-this-process.ts'
import type { Content } from '../../support/pod.ts'

const program = join(repository, 'dist/gateway/main.js')

/**
 * A pod without a network namespace and a root of its own: it has an address of loopback, and a folder as its root. The
 * address is its loopback, too. Names of Services with their ports lead where a test has them.
 */
export type Place = Readonly<{ address: string; root: string; services?: Readonly<Record<string, string>> }>

let written = 0

/** Writes a pod's volumes as a kubelet does: a link leads to the files, and one rename changes them all. */
export function writeVolumes(volumes: Readonly<Record<string, Content>>, place: Place): void {
  for (const [path, files] of Object.entries(volumes)) {
    const folder = join(place.root, path)
    const version = `..${++written}`
    mkdirSync(join(folder, version), { recursive: true })
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(folder, version, name), inPlace(text ?? '', place), { mode: 0o440 })
    symlinkSync(version, join(folder, '..data_tmp'))
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    const names = readdirSync(folder).filter((name) => !name.startsWith('..'))
    for (const name of names) if (!(name in files)) rmSync(join(folder, name))
    for (const name of Object.keys(files))
      if (!names.includes(name)) symlinkSync(join('..data', name), join(folder, name))
  }
}

function inPlace(text: string, { address, root, services = {} }: Place): string {
  const own = text.replaceAll('/etc/sallyport/', `${root}/etc/sallyport/`).replaceAll('0.0.0.0', address)
  return Object.entries(services).reduce(
    (text, [name, target]) => text.replaceAll(`//${name}/`, `//${target}/`),
    own.replaceAll('host: 127.0.0.1', `host: ${address}`),
  )
}

export type ContainerProcess = Readonly<{
  child: ChildProcess
  /** Resolves with the exit code; 137 for a process that was killed. */
  ended: Promise<number>
  log: () => string
}>

/** Runs the container's command; the image's own is the gateway. */
export function startContainer({ command, args, env = [] }: Manifest, place: Place): ContainerProcess {
  const variables = Object.fromEntries(env.map(({ name, value }: Manifest) => [name, value]))
  const [file, ...words]: readonly [string, ...string[]] = command ?? [process.execPath, program]
  const child = spawn(file, [...words, ...args.map((word: string) => inPlace(word, place))], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...variables },
  })
  endWithThisProcess(child)
  const chunks: string[] = []
  for (const output of [child.stdout, child.stderr])
    output.on('data', (chunk: Buffer) => chunks.push(chunk.toString().replaceAll(place.root, '')))
  const ended = new Promise<number>((resolve) => child.on('close', (code) => resolve(code ?? 137)))
  return { child, ended, log: () => chunks.join('') }
}

/** Whether the container passes one of its probes. */
export async function probe(container: Manifest, { httpGet }: Manifest, { address }: Place): Promise<boolean> {
  const { containerPort } = container.ports.find(({ name }: Manifest) => name === httpGet.port)
  const answer = await call(`http://${address}:${containerPort}`, { path: httpGet.path }).catch(() => undefined)
  return answer?.status === 200
}
