import type { Log } from '../observe/log.ts'
import { createFileMemory, type ReadText } from './file-memory.ts'
import { createFilesWatch, type Look } from './watch-files.ts'

export type KeyWatch = Readonly<{
  /** The texts in use, and the file that each came from, if any. */
  texts: readonly string[]
  files: readonly (string | undefined)[]
  /** Takes other keys, or rejects and leaves everything as it was. */
  adopt: (texts: readonly string[]) => Promise<void>
  noteOutcome: (isGood: boolean) => void
  log: Log
}>

/** Looks whether the key files hold other keys. */
export const createKeyWatch = ({ texts, files, adopt, noteOutcome, log }: KeyWatch): Look =>
  createFilesWatch<readonly string[]>({
    inUse: texts.map(trim),
    read: readTexts(files),
    adopt,
    noteOutcome,
    log,
    sentences: {
      failed: 'identity keys could not be reloaded; the last good ones go on',
      reloaded: 'identity keys reloaded',
      restored: 'the identity keys in use are back in their files',
    },
  })

/** Reads texts anew where they came from files; what came from none stays what it is. */
export function readTexts(files: readonly (string | undefined)[]) {
  const readText = createFileMemory()
  return (inUse: readonly string[]): Promise<readonly string[]> =>
    Promise.all(inUse.map((text, index) => readFrom(files[index], readText) ?? text))
}

const readFrom = (file: string | undefined, readText: ReadText): Promise<string> | undefined =>
  file === undefined
    ? undefined
    : readText(file).then(trim, (error: NodeJS.ErrnoException) => {
        throw new Error(`file ${file} cannot be read: ${error.code ?? 'unknown error'}`)
      })

/** The configuration takes a file without its last line feed; here no blank at either end counts. */
export const trim = (text: string): string => text.trim()
