/** The end of a command's help: lines that may be pasted into a terminal. */
export const example = (...lines: readonly string[]): string =>
  `\nExample:\n${lines.map((line) => `  $ ${line}\n`).join('')}`
