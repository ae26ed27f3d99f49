import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'
import { describeError, type Log } from '../observe/log.ts'

export type KeyWatch = Readonly<{
  /** The texts in use, and the file that each came from, if any. */
  texts: readonly string[]
  files: readonly (string | undefined)[]
  /** Takes other keys, or rejects and leaves everything as it was. */
  adopt: (texts: readonly string[]) => Promise<void>
  noteOutcome: (isGood: boolean) => void
  log: Log
}>

/**
 * Looks, each time it is called, whether the key files hold something else. It compares what they hold and not
 * their dates, so it follows a rename, a symbolic link that was turned, and an edit within one tick of the file
 * system's clock. What two looks in a row agree on is not half written.
 */
export function createKeyWatch({ texts, files, adopt, noteOutcome, log }: KeyWatch): () => Promise<void> {
  let inUse = texts.map(trim)
  let last: readonly string[] | Error = inUse
  let complaint: string | undefined

  const complain = (error: Error): void => {
    noteOutcome(false)
    if (error.message === complaint) return
    complaint = error.message
    log.error({ error: describeError(error) }, 'identity keys could not be reloaded; the last good ones go on')
  }
  return async () => {
    const found = await readAll(inUse, files).catch((error: Error) => error)
    const isSettled = isDeepStrictEqual(found, last)
    last = found
    if (!isSettled) return
    if (found instanceof Error) return complain(found)
    const isChanged = !isDeepStrictEqual(found, inUse)
    if (!isChanged && complaint === undefined) return
    try {
      if (isChanged) await adopt(found)
    } catch (error) {
      return complain(error as Error)
    }
    inUse = [...found]
    complaint = undefined
    noteOutcome(true)
    log.info({}, isChanged ? 'identity keys reloaded' : 'the identity keys in use are back in their files')
  }
}

/** What came from no file stays what it is. */
const readAll = (inUse: readonly string[], files: readonly (string | undefined)[]): Promise<readonly string[]> =>
  Promise.all(inUse.map((text, index) => readText(files[index]) ?? text))

const readText = (file: string | undefined): Promise<string> | undefined =>
  file === undefined
    ? undefined
    : readFile(file, 'utf8').then(trim, (error: NodeJS.ErrnoException) => {
        throw new Error(`file ${file} cannot be read: ${error.code ?? 'unknown error'}`)
      })

/** The configuration takes a file without its last line feed; here no blank at either end counts. */
const trim = (text: string): string => text.trim()
