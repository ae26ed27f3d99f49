import { execFileSync } from 'node:child_process'
import { closeSync, constants, mkdtempSync, openSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Owner } from '../test/support/owner.ts'

/** Opens a named pipe and returns its two descriptors, which the caller closes. */
export function openPipe(owner: Owner): Readonly<{ reading: number; writing: number }> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-pipe-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const path = join(directory, 'pipe')
  execFileSync('mkfifo', [path])
  // Open for reading and writing first: otherwise opening one end would wait for the other.
  const both = openSync(path, constants.O_RDWR)
  const reading = openSync(path, constants.O_RDONLY)
  const writing = openSync(path, constants.O_WRONLY)
  closeSync(both)
  return { reading, writing }
}
