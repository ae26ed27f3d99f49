import {
  close,
  closeSync,
  constants,
  fstat,
  fstatSync,
  open,
  openSync,
  type Stats,
  stat,
  write,
  writeSync,
} from 'node:fs'
import { isatty } from 'node:tty'
import { promisify } from 'node:util'

export type Sink = Readonly<{
  writeLimitBytes: number
  write: (bytes: Buffer, offset: number) => Promise<number>
  /** Continues in a new file if the old one was renamed or removed; resolves to whether it was. */
  follow: () => Promise<boolean>
  /** Whether a write waits for the reader, and nothing can end that wait. */
  mayBlock: boolean
  writeNow: (bytes: Buffer) => void
  close: () => void
}>

/** PIPE_BUF on Linux: a write of this size is never mixed with another process's (pipe(7)). */
export const atomicBytes = 4_096

const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY

const mode = 0o640

/** The kernel appends each write to a file as a whole. */
const fileWriteBytes = 64 * 1024

const openFile = promisify(open)
const readStats = promisify(stat)
const readOpenStats = promisify(fstat)

export const openPlace = (sink: string): Sink =>
  sink === 'stdout' ? openStream(1, atomicBytes) : sink === 'stderr' ? openStream(2, atomicBytes) : openPath(sink)

export function openStream(shared: 1 | 2, writeLimitBytes: number): Sink {
  const own = reopen(shared)
  return {
    ...writeTo(() => own ?? shared),
    mayBlock: own === undefined && !fstatSync(shared).isFile(),
    writeLimitBytes,
    follow: async () => false,
    close: () => {
      if (own !== undefined) closeSync(own)
    },
  }
}

/**
 * Opens a pipe or terminal again, without blocking: a thread that waits for a stopped reader would keep the process
 * from ending. Other writers to the pipe do not notice.
 */
function reopen(shared: number): number | undefined {
  if (!fstatSync(shared).isFIFO() && !isatty(shared)) return undefined
  try {
    return openSync(`/proc/self/fd/${shared}`, flags)
  } catch {
    // Without /proc, or with another user's pipe, the shared descriptor is used.
    return undefined
  }
}

function openPath(path: string): Sink {
  let descriptor = openSync(path, flags | constants.O_CREAT, mode)
  let file = fstatSync(descriptor)
  return {
    ...writeTo(() => descriptor),
    mayBlock: false,
    writeLimitBytes: file.isFile() ? fileWriteBytes : atomicBytes,
    follow: async () => {
      if (isSame(await readStats(path).catch(() => undefined), file)) return false
      const next = await openFile(path, flags | constants.O_CREAT, mode)
      const old = descriptor
      descriptor = next
      file = await readOpenStats(next)
      close(old, () => undefined)
      return true
    },
    close: () => closeSync(descriptor),
  }
}

const isSame = (found: Stats | undefined, file: Stats): boolean => found?.ino === file.ino && found.dev === file.dev

const writeTo = (descriptor: () => number): Pick<Sink, 'write' | 'writeNow'> => ({
  write: (bytes, offset) =>
    new Promise((resolve, reject) => {
      write(descriptor(), bytes, offset, bytes.length - offset, null, (error, written) => {
        if (error) reject(error)
        else resolve(written)
      })
    }),
  writeNow: (bytes) => {
    let offset = 0
    try {
      while (offset < bytes.length) offset += writeSync(descriptor(), bytes, offset)
    } catch {
      // The process ends and cannot wait for room.
    }
  },
})
