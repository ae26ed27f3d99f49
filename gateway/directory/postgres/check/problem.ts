export type DirectoryProblem = Readonly<{
  severity: 'error' | 'warning'
  code: ProblemCode
  where: string
  message: string
  help: string
}>

export type ProblemCode =
  | 'not-migrated'
  | 'no-access'
  | 'missing-view'
  | 'missing-column'
  | 'wrong-type'
  | 'key-to-number'
  | 'not-writable'
  | 'unreadable'
  | 'null-value'
  | 'wrong-value'
  | 'unknown-role'
  | 'two-roles'
  | 'two-rows'
  | 'silent-table'
  | 'declared-too'
  | 'no-index'
  | 'refused-write'
  | 'failing-trigger'
  | 'frequent-changes'

export const schema = 'sallyport_directory'

// Three names show a pattern, and the sentence stays one line.
const shown = 3

export const summarize = (names: readonly string[]): string =>
  names.length <= shown ? names.join(', ') : `${names.slice(0, shown).join(', ')} and ${names.length - shown} more`
