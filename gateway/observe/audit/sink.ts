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

/** Where lines go. */
export type Sink = Readonly<{
  /** More at once might be mixed with what others write to the same place. */
  writeLimitBytes: number
  /** Resolves to how much was taken, which may be less than all; rejects with the system's error. */
  write: (bytes: Buffer, offset: number) => Promise<number>
  /** Goes on in a new file where the old one was renamed or removed; resolves to whether it was. */
  follow: () => Promise<boolean>
  /** Whether a write waits for whoever reads, and nothing can end that. */
  mayBlock: boolean
  /** Writes at once what is taken at once; for the process' end. */
  writeNow: (bytes: Buffer) => void
  close: () => void
}>

/** PIPE_BUF on Linux: a write of this size is never mixed with another process' (pipe(7)). */
export const atomicBytes = 4_096

/** For appending, and without waiting for a pipe's reader: neither its start nor its reading. */
const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_NONBLOCK | constants.O_NOCTTY

/** The owner may write, and the group of those who ship logs read. */
const mode = 0o640

/** One file is one inode: the kernel appends to it whole writes, one after the other. */
const fileWriteBytes = 64 * 1024

const openFile = promisify(open)
const readStats = promisify(stat)
const readOpenStats = promisify(fstat)

/** Opens `stdout`, `stderr` or a file's path; throws the system's error where it cannot be. */
export const openPlace = (sink: string): Sink =>
  sink === 'stdout' ? openStream(1, atomicBytes) : sink === 'stderr' ? openStream(2, atomicBytes) : openPath(sink)

/** A standard stream, which is written by so many bytes at most at once. */
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
 * A pipe or terminal under a descriptor of its own, which does not block: a thread that waits in a write for a reader
 * that has stopped keeps the process from ending. Other programs that write to the pipe do not notice.
 */
function reopen(shared: number): number | undefined {
  if (!fstatSync(shared).isFIFO() && !isatty(shared)) return undefined
  try {
    return openSync(`/proc/self/fd/${shared}`, flags)
  } catch {
    // Another user's pipe, or no /proc: it is written to as it is.
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
      // The place is full or gone, and so is the time to wait for it.
    }
  },
})
