export const example = (...lines: readonly string[]): string =>
  `\nExample:\n${lines.map((line) => `  $ ${line}\n`).join('')}`
