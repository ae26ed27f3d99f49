import type { Log } from '../../observe/log/log.ts'
import { createCachedFileReader, type ReadText, readUpTo } from './cached-file-reader.ts'
import { createFilesWatch, type Poll } from './watch-files.ts'

export type KeyWatch = Readonly<{
  texts: readonly string[]
  files: readonly (string | undefined)[]
  apply: (texts: readonly string[]) => Promise<void>
  noteOutcome: (isGood: boolean) => void
  log: Log
}>

export const createKeyWatch = ({ texts, files, apply, noteOutcome, log }: KeyWatch): Poll =>
  createFilesWatch<readonly string[]>({
    inUse: texts.map(trim),
    read: readTexts(files),
    apply,
    noteOutcome,
    log,
    messages: {
      failed: 'identity key reload failed; the last good ones stay in use',
      reloaded: 'identity keys reloaded',
      restored: 'identity key files match the ones in use again',
    },
  })

/** Larger than the bundle of certificate authorities that any system ships. */
const mostBytes = 1_048_576

export function readTexts(files: readonly (string | undefined)[]) {
  const readText = createCachedFileReader({ open: readUpTo(mostBytes) })
  return async (inUse: readonly string[]): Promise<readonly string[]> => {
    const texts: string[] = []
    // One after the other: on a file system that hangs, each reading would hold a thread of libuv's pool.
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

/** The configuration drops a file's last line feed; this comparison ignores blanks at both ends. */
export const trim = (text: string): string => text.trim()
