/** A mistake of the operator's, with its place; lines and columns count from 1. */
export type Problem = Readonly<{ file: string; line: number; column: number; message: string }>

/** Configuration that cannot be used. The message lists every problem as `file:line:column: sentence`. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'))
    this.problems = problems
  }
}
