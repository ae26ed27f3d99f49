/** Lines and columns count from 1; a mistake of a whole file has none. */
export type Problem = Readonly<{ file: string; line?: number; column?: number; message: string }>

export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
  readonly problems: readonly Problem[]

  constructor(found: readonly Problem[]) {
    const problems = new Map(found.map((problem) => [`${placeOf(problem)}: ${problem.message}`, problem]))
    super([...problems.keys()].join('\n'))
    this.problems = [...problems.values()]
  }
}

export const placeOf = ({ file, line, column }: Problem): string =>
  line === undefined ? file : `${file}:${line}:${column ?? 1}`

/** The reason why a path cannot be read, by its code: the system's own message would name the path a second time. */
export function explainUnreadable(error: unknown): string {
  const { code = 'unknown error' } = error as NodeJS.ErrnoException
  const reason = unreadable[code]
  return `cannot be read: ${code}${reason === undefined ? '' : ` (${reason})`}`
}

const unreadable: Readonly<Record<string, string>> = {
  ENOENT: 'it does not exist',
  EACCES: 'this user may not read it',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is a file',
}
