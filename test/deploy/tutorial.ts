import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../../demo/free-port.ts'
import { lackOf, makeFolder, type Ran, repository, run, tool } from '../support/deploy.ts'
import type { Owner } from '../support/owner.ts'
import { signalGroup } from '../support/serve.ts'

export const pageLack =
  lackOf('cache') ?? (spawnSync('curl', ['--version']).status === 0 ? undefined : 'no curl on PATH')

/** The commands of a page, and the status of each of its requests, by the comment on its line. */
export function readPage(file: string) {
  const page = readFileSync(join(repository, file), 'utf8')
  const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block ?? '')
  const promised = blocks.flatMap((block) => [...block.matchAll(/^curl .*# (\d{3})$/gm)].map(([, status]) => status))
  return { blocks, promised }
}

export const findStatuses = (output: string) => [...output.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status)

/** Packs the package as a reader gets it. */
export async function packInto(folder: string): Promise<void> {
  const args = ['pack', '--ignore-scripts', '--pack-destination', folder]
  const { code, stderr } = await run('npm', args, { cwd: repository })
  if (code !== 0) throw new Error(stderr)
}

/**
 * Types commands into a shell, in a group of its own. Free ports take the place of the page's, and npm takes packages from the
 * cache without a network.
 */
export async function followPage(owner: Owner, folder: string, text: string, ports: readonly string[]): Promise<Ran> {
  const cache = makeFolder(owner)
  cpSync(tool.cache, cache, { recursive: true })
  const file = join(makeFolder(owner), 'page.sh')
  let script = text
  for (const port of ports) script = script.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), String(await findFreePort()))
  writeFileSync(file, script)
  const shell = spawn('bash', ['-eu', file], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      npm_config_cache: cache,
      npm_config_offline: 'true',
      npm_config_audit: 'false',
      npm_config_update_notifier: 'false',
    },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  owner.teardown(() => signalGroup(shell.pid ?? 0, 'SIGKILL'))
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    shell[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  const [code] = await once(shell, 'close')
  return { code, ...output }
}
