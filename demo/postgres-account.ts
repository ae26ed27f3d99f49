import { spawn } from 'node:child_process'
import type { Stats } from 'node:fs'
import { lstat, realpath } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'

export type Account = Readonly<{ uid: number; gid: number }> | undefined

// PostgreSQL refuses to run as root. 65534 is the user `nobody` on nearly every system.
const nobody = { uid: 65534, gid: 65534 } as const

export function unprivilegedAccount(): Account {
  return process.getuid?.() === 0 ? nobody : undefined
}

export async function temporaryRoot(account: Account): Promise<string> {
  if (account === undefined) return tmpdir()
  for (const candidate of [tmpdir(), '/tmp', '/var/tmp']) {
    if (await isTraversableByAll(candidate)) return candidate
  }
  throw new Error(`No temporary directory can be entered by user ${account.uid}: set TMPDIR to one that can`)
}

export function runProgram(command: string, args: readonly string[], account: Account, cwd: string): Promise<string> {
  return new Promise((fulfil, reject) => {
    const child = spawn(command, args, {
      ...account,
      cwd,
      env: programEnvironment,
      detached: true, // Out of Ctrl-C's process group: an interrupted initdb leaves shared memory behind.
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    const collect = (chunk: Buffer): void => {
      output += chunk.toString()
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    child.once('error', reject)
    child.once('close', (code, signal) => {
      if (code === 0) fulfil(output)
      else reject(new Error(`${command} ended with ${signal ?? `exit code ${code}`}: ${output.trim()}`))
    })
  })
}

export const programEnvironment: NodeJS.ProcessEnv = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' }

async function isTraversableByAll(folder: string): Promise<boolean> {
  for (let path = await realpath(folder); ; path = dirname(path)) {
    const status = await lookUp(path)
    if (status === undefined || (status.mode & 0o001) === 0) return false
    if (path === dirname(path)) return true
  }
}

export async function lookUp(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path)
  } catch (cause) {
    if (isMissing(cause)) return undefined
    throw cause
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT'
}
