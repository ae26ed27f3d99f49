import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseAllDocuments } from 'yaml'
import type { JsonValue } from './client.ts'
import type { Owner } from './owner.ts'

export const repository = fileURLToPath(new URL('../..', import.meta.url))

const tools = join(repository, '.sallyport', 'deploy')

/** The programs that `scripts/install-tools.js deploy` installs; a caller first asks whether one is there. */
export const tool = {
  helm: join(tools, 'bin', 'helm'),
  validate: join(tools, 'bin', 'kubectl-validate'),
  definitions: join(tools, 'definitions'),
  hadolint: join(tools, 'python', 'bin', 'hadolint'),
  /** npm installs the package's dependencies from it, without a network. */
  cache: join(tools, 'cache'),
  cyclonedx: join(tools, 'npm', 'node_modules', '@cyclonedx', 'cyclonedx-library', 'res', 'schema'),
  /** The Node of the image, for this machine's processor. */
  node: join(tools, 'npm', 'node_modules', `node-linux-${process.arch}`, 'bin', 'node'),
} as const

/** The reason why a test cannot run, if one of these is missing. */
export const lackOf = (...names: readonly (keyof typeof tool)[]): string | undefined => {
  const missing = names.filter((name) => !existsSync(tool[name]))
  return missing.length === 0 ? undefined : `${missing.join(' and ')} missing: run scripts/install-tools.js deploy`
}

export type Ran = Readonly<{ code: number | null; stdout: string; stderr: string }>

export type RunOptions = Readonly<{
  cwd?: string
  env?: Readonly<Record<string, string>>
  uid?: number
  gid?: number
}>

/** Runs a program to its end; of the machine's variables it sees PATH and HOME alone. */
export async function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { env, ...rest } = options
  const child = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    ...rest,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
  })
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  const [code] = await once(child, 'close')
  return { code, ...output }
}

/** A folder that goes with its owner, and that other users may look into. */
export function makeFolder(owner: Owner): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  chmodSync(folder, 0o755)
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** An object of Kubernetes, as far as tests look into it. */
export type Manifest = Readonly<Record<string, JsonValue>>

/** Every object of a stream of YAML, but empty ones. */
export const readManifests = (text: string): readonly Manifest[] =>
  parseAllDocuments(text).flatMap((document) => {
    const manifest: Manifest | null = 'toJS' in document ? document.toJS() : null
    return manifest === null ? [] : [manifest]
  })

export const chart = join(repository, 'helm', 'sallyport')

/** Renders the chart; fails with Helm's message. */
export async function renderChart(args: readonly string[], folder = chart): Promise<readonly Manifest[]> {
  const { code, stdout, stderr } = await run(tool.helm, ['template', 'gate', folder, '--namespace', 'edge', ...args])
  if (code !== 0) throw new Error(stderr)
  return readManifests(stdout)
}

/** The one object of a kind, by the end of its name where there are several. */
export function findManifest(manifests: readonly Manifest[], kind: string, ending = ''): Manifest {
  const found = manifests.filter((manifest) => manifest.kind === kind && manifest.metadata.name.endsWith(ending))
  const [manifest] = found
  if (manifest === undefined || found.length > 1) throw new Error(`${found.length} of ${kind} …${ending}`)
  return manifest
}
