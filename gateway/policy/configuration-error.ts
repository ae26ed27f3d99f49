/** An operator's mistake. Lines and columns count from 1. */
export type Problem = Readonly<{ file: string; line: number; column: number; message: string }>

export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
  readonly problems: readonly Problem[]

  constructor(problems: readonly Problem[]) {
    super(problems.map(({ file, line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'))
    this.problems = problems
  }
}
