// Says which Node has no security fixes any more, or lacks the last ones. scripts/node-versions.js explains the file.
import { readFileSync } from 'node:fs'
import type { Log } from '../observe/log/log.ts'

type Line = Readonly<{ endOfLife: string; lastSecurityRelease?: Readonly<{ version: string; date: string }> }>

type Lines = Readonly<Record<string, Line>>

/** Why this Node is for trying only. Undefined for one that has every fix known here, and for lines newer than those. */
export function findLackingFixes(version: string, now: Date, lines = readLines()): string | undefined {
  const [major = 0] = readNumbers(version)
  const line = lines[major]
  if (line === undefined) {
    // A line with an odd number lives for eight months, so each older than the newest known one has ended.
    return major < Math.max(...Object.keys(lines).map(Number)) ? 'no security fixes for this line' : undefined
  }
  const { endOfLife, lastSecurityRelease } = line
  if (now.toISOString().slice(0, 10) > endOfLife) return `no security fixes since ${endOfLife}`
  if (lastSecurityRelease === undefined || !isOlder(version, lastSecurityRelease.version)) return undefined
  return `lacks the security fixes of ${lastSecurityRelease.version} of ${lastSecurityRelease.date}`
}

function readLines(): Lines {
  const file = readFileSync(new URL('./node-releases.json', import.meta.url), 'utf8')
  return (JSON.parse(file) as { lines: Lines }).lines
}

const readNumbers = (version: string): readonly number[] => version.replace(/^v/, '').split('.').map(Number.parseFloat)

function isOlder(version: string, than: string): boolean {
  const own = readNumbers(version)
  const wanted = readNumbers(than)
  const place = wanted.findIndex((number, index) => number !== own[index])
  return (own[place] ?? 0) < (wanted[place] ?? 0)
}

export function warnOfLackingFixes(log: Pick<Log, 'warn'>, now: Date): void {
  const lack = findLackingFixes(process.version, now)
  if (lack !== undefined) log.warn({ node: process.version, lack }, 'node lacks security fixes; for trying only')
}
