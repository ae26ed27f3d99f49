import { readFileSync } from 'node:fs'

/** The version of this package, as its own description says it. */
export function readVersion(): string {
  const description = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(description) as { version: string }).version
}
