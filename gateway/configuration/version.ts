import { readFileSync } from 'node:fs'

export function readVersion(): string {
  const description = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(description) as { version: string }).version
}
