import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { testUnlessLacking } from '../../support/lacks.ts'

/** A proxy's program, by its path. */
export type Program = Readonly<{ path: string; version: string }>

/** The arguments by which each program prints its version. */
const versionArguments = {
  nginx: ['-v'],
  caddy: ['version'],
  haproxy: ['-v'],
  traefik: ['version'],
  envoy: ['--version'],
  lighttpd: ['-v'],
  varnishd: ['-V'],
  apache2: ['-v'],
} as const

export type ProgramName = keyof typeof versionArguments

/** Those that can ask the decision listener. */
export type ProxyName = Exclude<ProgramName, 'lighttpd' | 'varnishd' | 'apache2'>

/** The folder of `scripts/install-tools.js proxies`. */
const environment = fileURLToPath(new URL('../../../.sallyport/proxies', import.meta.url))

/**
 * Tests each proxy of a name that this machine has: on PATH, and in `.sallyport/proxies`. Without any the test is
 * skipped, visibly; `REQUIRE_ALL=1` forbids it.
 */
export function testProxy(t: Test, name: ProgramName, run: (t: Test, program: Program) => Promise<unknown>): void {
  const programs = findPrograms(name)
  for (const program of programs) void t.test(program.version, (t) => run(t, program))
  if (programs.length > 0) return
  const lack = `there is no ${name}: neither on PATH nor by scripts/install-tools.js proxies`
  testUnlessLacking(t, name, async () => undefined, lack)
}

/** Every program of a name that this machine has, of PATH first. */
export function findPrograms(name: ProgramName): readonly Program[] {
  // Debian keeps servers where only root's PATH leads.
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  const onPath = folders.map((folder) => join(folder, name)).find(isProgram)
  const installed = listInstalled(name).find(isProgram)
  return [onPath, installed].flatMap((path) => (path === undefined ? [] : [{ path, version: readVersion(name, path) }]))
}

/** Envoy's wheel has a script of Python's in `bin`, which leads to the Python that made it. */
function listInstalled(name: ProgramName): readonly string[] {
  // Written last, so a half-made environment does not count.
  if (!existsSync(join(environment, '.requirements'))) return []
  if (name !== 'envoy') return [join(environment, 'bin', name)]
  const library = join(environment, 'lib')
  return readdirSync(library).map((python) => join(library, python, 'site-packages/envoy/_bin/envoy'))
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false // missing, or not executable for this user
  }
}

function readVersion(name: ProgramName, path: string): string {
  const { stdout, stderr } = spawnSync(path, versionArguments[name], { encoding: 'utf8' })
  const [version] = /\d+\.\d+\.\d+/.exec(`${stdout}${stderr}`) ?? ['of an unknown version']
  return `${name} ${version}`
}
