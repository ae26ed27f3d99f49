import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'

/** The reason why programs cannot be put into a sandbox here, if they cannot. */
export const sandboxLack: string | undefined =
  spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', 'true']).status === 0
    ? undefined
    : 'no bubblewrap that may make namespaces: install the package bubblewrap'

/** A folder or file of this machine, and where it stands in the sandbox; or a link within the sandbox. */
export type Mount = Readonly<{ from: string; to: string; as?: 'writable' | 'link' }>

/** The user of the image. */
export const nobody = { uid: 65532, gid: 65532 } as const

/** Only root can become another user. */
const isRoot = process.getuid?.() === 0

const toArguments = (mounts: readonly Mount[]): readonly string[] =>
  mounts.flatMap(({ from, to, as }) => [
    { writable: '--bind', link: '--symlink', read: '--ro-bind' }[as ?? 'read'],
    from,
    to,
  ])

/** A machine like this one, read-only and without a network, for the steps that build an image. */
export function buildArguments(mounts: readonly Mount[], env: Readonly<Record<string, string>>): readonly string[] {
  const own = new Set(['proc', 'dev', 'tmp', 'sys', ...mounts.map(({ to }) => to.split('/')[1] ?? '')])
  const machine = readdirSync('/').filter((name) => !own.has(name))
  return [
    ...['--unshare-all', '--uid', '0', '--gid', '0', '--die-with-parent', '--clearenv'],
    ...toArguments(machine.map((name) => ({ from: `/${name}`, to: `/${name}` }))),
    ...['--dev', '/dev', '--proc', '/proc', '--tmpfs', '/tmp'],
    ...toArguments(mounts),
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

export type Container = Readonly<{
  mounts: readonly Mount[]
  env: Readonly<Record<string, string>>
  directory: string
}>

/** Shared libraries, and the one program beside Node that the first line of the command names. */
const libraries = ['/usr/lib', '/usr/lib64', '/lib', '/lib64', '/etc/ld.so.cache', '/usr/bin/env']

/**
 * The arguments of a sandbox that is like a container. The image's Node is process 1, and nothing can be written. The
 * sandbox has neither capabilities nor a shell nor npm. The network is this machine's, where the database of the tests is.
 */
function containerArguments({ mounts, env, directory }: Container): readonly string[] {
  const machine = libraries.filter((path) => existsSync(path)).map((path) => ({ from: path, to: path }))
  return [
    ...['--unshare-user', '--unshare-pid', '--unshare-ipc', '--unshare-uts', '--unshare-cgroup-try', '--as-pid-1'],
    ...['--uid', String(nobody.uid), '--gid', String(nobody.gid), '--cap-drop', 'ALL', '--new-session'],
    ...['--die-with-parent', '--clearenv', '--setenv', 'PATH', '/usr/local/bin:/usr/bin:/bin'],
    ...toArguments([...machine, ...mounts]),
    ...['--dev', '/dev', '--proc', '/proc', '--remount-ro', '/', '--chdir', directory],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
  ]
}

export type Contained = Readonly<{
  child: ChildProcess
  /** The id that this machine gives process 1 of the sandbox. */
  pid: Promise<number>
  stdout: () => string
  stderr: () => string
  /** The exit code, once the sandbox is gone. */
  ended: Promise<number | null>
}>

/** Starts a program in a container; it ends with the test. */
export function startContained(t: Test, container: Container, command: readonly string[]): Contained {
  const args = ['--json-status-fd', '3', ...containerArguments(container), ...command]
  const child = spawn('bwrap', args, {
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
    ...(isRoot && nobody),
  })
  t.teardown(() => child.kill('SIGKILL'))
  const text = { stdout: '', stderr: '', status: '' }
  const status = child.stdio[3] as Readable // the fourth of the pipes above
  for (const [name, stream] of Object.entries({ stdout: child.stdout, stderr: child.stderr, status }))
    stream?.on('data', (chunk: Buffer) => {
      text[name as keyof typeof text] += chunk.toString()
    })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  const pid = once(status, 'data').then(() => Number(/"child-pid": (\d+)/.exec(text.status)?.[1]))
  return { child, pid, ended, stdout: () => text.stdout, stderr: () => text.stderr }
}

/** A mount for each entry of a folder, for the places that a program finds beside others. */
export const mountEntries = (folder: string, to: string): readonly Mount[] =>
  readdirSync(folder).map((name) => ({ from: join(folder, name), to: join(to, name) }))
