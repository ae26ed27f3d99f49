/** Something about a database that keeps the gateway from working on it, or makes it slow. */
export type DirectoryProblem = Readonly<{
  severity: 'error' | 'warning'
  code: ProblemCode
  /** A relation, a column of one, or a table behind it. */
  where: string
  message: string
  /** What to do next. */
  help: string
}>

export type ProblemCode =
  | 'not-migrated'
  | 'no-access'
  | 'missing-view'
  | 'missing-column'
  | 'wrong-type'
  | 'not-writable'
  | 'unreadable'
  | 'null-value'
  | 'wrong-value'
  | 'unknown-role'
  | 'two-roles'
  | 'silent-table'
  | 'no-index'
  | 'refused-write'

export const schema = 'sallyport_directory'

/** How many of a list are shown in a sentence. */
const shown = 3

/** Some of a list, and how many more there are. */
export const summarize = (names: readonly string[]): string =>
  names.length <= shown ? names.join(', ') : `${names.slice(0, shown).join(', ')} and ${names.length - shown} more`
