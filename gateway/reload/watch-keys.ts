import type { Log } from '../observe/log/log.ts'
import { createCachedFileReader, type ReadText, readUpTo } from './cached-file-reader.ts'
import { createFilesWatch, type Poll } from './watch-files.ts'

export type KeyWatch = Readonly<{
  /** The texts in use, and the file that each came from, if any. */
  texts: readonly string[]
  files: readonly (string | undefined)[]
  /** Takes other keys, or rejects and leaves everything as it was. */
  apply: (texts: readonly string[]) => Promise<void>
  noteOutcome: (isGood: boolean) => void
  log: Log
}>

/** Looks whether the key files hold other keys. */
export const createKeyWatch = ({ texts, files, apply, noteOutcome, log }: KeyWatch): Poll =>
  createFilesWatch<readonly string[]>({
    inUse: texts.map(trim),
    read: readTexts(files),
    apply,
    noteOutcome,
    log,
    messages: {
      failed: 'identity keys could not be reloaded; the last good ones go on',
      reloaded: 'identity keys reloaded',
      restored: 'the identity keys in use are back in their files',
    },
  })

/** Room for every authority that a system knows, several times over. */
const mostBytes = 1_048_576

/** Reads texts anew where they came from files; what came from none stays what it is. */
export function readTexts(files: readonly (string | undefined)[]) {
  const readText = createCachedFileReader({ open: readUpTo(mostBytes) })
  return async (inUse: readonly string[]): Promise<readonly string[]> => {
    const texts: string[] = []
    // One after the other: on a file system that does not answer, each would keep a thread of the pool.
    for (const [index, text] of inUse.entries()) texts.push((await readFrom(files[index], readText)) ?? text)
    return texts
  }
}

const readFrom = (file: string | undefined, readText: ReadText): Promise<string> | undefined =>
  file === undefined
    ? undefined
    : readText(file).then(trim, (error: NodeJS.ErrnoException) => {
        throw new Error(`file ${file} cannot be read: ${error.code ?? 'unknown error'}`)
      })

/** The configuration takes a file without its last line feed; here no blank at either end counts. */
export const trim = (text: string): string => text.trim()
