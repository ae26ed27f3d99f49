import { constants } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { notRegular } from '../../policy/regular-file.ts'

export type ReadText = (file: string) => Promise<string>

/**
 * Reads at most this many bytes into memory. O_NONBLOCK (open(2)) keeps it from waiting for a writer if a pipe has
 * replaced the file since `stat`.
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

/** File system clocks are coarse: within this time two changes can leave the same timestamps. */
const settledAfterMs = 2_000

/** Some network file systems report a change only once the file is opened. */
const believedMs = 5_000

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
