import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Owner } from './owner.ts'

/** A pipe by its two descriptors; both are the caller's to close. */
export function openPipe(owner: Owner): Readonly<{ reading: number; writing: number }> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-pipe-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'pipe')
  execFileSync('mkfifo', [path])
  // Open for both, so that opening the other end does not wait.
  const both = openSync(path, constants.O_RDWR)
  const reading = openSync(path, constants.O_RDONLY)
  const writing = openSync(path, constants.O_WRONLY)
  closeSync(both)
  return { reading, writing }
}
