import { readFile, stat } from 'node:fs/promises'

export type ReadText = (file: string) => Promise<string>

const readWhole: ReadText = (file) => readFile(file, 'utf8')

/** A file system's clock may stand still for so long, and what is changed twice meanwhile look unchanged. */
const settledAfterMs = 2_000

/** Not every network file system tells at once that a file is another; to open it does. */
const believedMs = 5_000

/**
 * Reads files that are looked at again and again: one that the system says nobody has touched since is not opened. What
 * was changed just now is, each time, so that no change goes by for having come with another.
 */
export function createFileMemory({ nowMs = Date.now, open = readWhole } = {}): ReadText {
  const known = new Map<string, Readonly<{ status: string; text: string; readAtMs: number }>>()
  return async (file) => {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    const status = [dev, ino, size, mtimeNs, ctimeNs].join()
    const held = known.get(file)
    const readAtMs = nowMs()
    if (held?.status === status && Math.abs(readAtMs - held.readAtMs) < believedMs) return held.text
    const text = await open(file)
    if (readAtMs - Number(ctimeNs / 1_000_000n) > settledAfterMs) known.set(file, { status, text, readAtMs })
    else known.delete(file)
    return text
  }
}
