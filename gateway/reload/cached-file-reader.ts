import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { notRegular } from '../policy/regular-file.ts'

export type ReadText = (file: string) => Promise<string>

/**
 * Reads files of at most so many bytes; of a larger one no more than that comes into memory. It does not wait for a
 * writer, should a pipe have taken the file's place since it was looked at (open(2), O_NONBLOCK).
 */
export const readUpTo =
  (mostBytes: number): ReadText =>
  async (file) => {
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    try {
      if (!(await handle.stat()).isFile()) throw notRegular()
      const chunks: Buffer[] = await handle.createReadStream({ end: mostBytes, autoClose: false }).toArray()
      const bytes = Buffer.concat(chunks)
      if (bytes.length > mostBytes) throw Object.assign(new Error('the file is too large'), { code: 'EFBIG' })
      return bytes.toString('utf8')
    } finally {
      await handle.close()
    }
  }

const readWhole = readUpTo(Number.POSITIVE_INFINITY)

/** A file system's clock may stand still for so long, and what is changed twice meanwhile look unchanged. */
const settledAfterMs = 2_000

/** Not every network file system tells at once that a file is another; to open it does. */
const believedMs = 5_000

/**
 * Reads files that are looked at again and again: one that the system says nobody has touched since is not opened. What
 * was changed just now is, each time, so that no change goes by for having come with another.
 */
export function createCachedFileReader({ nowMs = Date.now, open: read = readWhole } = {}): ReadText {
  const known = new Map<string, Readonly<{ status: string; text: string; readAtMs: number }>>()
  return async (file) => {
    const found = await stat(file, { bigint: true })
    if (!found.isFile()) throw notRegular()
    const { dev, ino, size, mtimeNs, ctimeNs } = found
    const status = [dev, ino, size, mtimeNs, ctimeNs].join()
    const held = known.get(file)
    const readAtMs = nowMs()
    if (held?.status === status && Math.abs(readAtMs - held.readAtMs) < believedMs) return held.text
    const text = await read(file)
    if (readAtMs - Number(ctimeNs / 1_000_000n) > settledAfterMs) known.set(file, { status, text, readAtMs })
    else known.delete(file)
    return text
  }
}
