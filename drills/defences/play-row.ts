import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Parser } from 'tap-parser'
import type { Column } from '../../test/support/press/column.ts'

type TestProcess = Readonly<{
  run: (
    file: string,
    options: Readonly<{ timeoutMs: number; onParser: (parser: Parser) => void }>,
  ) => Promise<Readonly<{ isOk: boolean; fault: string | undefined; seconds: number }>>
  stop: () => Promise<void>
}>

type Runner = Readonly<{
  startTestProcess: (
    options: Readonly<{ database: Database; memoryFolder: string | undefined; environment: Record<string, string> }>,
  ) => TestProcess
}>

/** The process in which `npm test` runs a file. */
const runner = new URL('../../scripts/test-process.js', import.meta.url).href
const { startTestProcess } = (await import(runner)) as Runner

/** One test file under one column. */
export type Row = Readonly<{
  column: Column
  file: string
  /** Names of tests that failed, from the outermost to the innermost, and of all that ran. */
  failed: readonly string[]
  /** The assertions that failed. */
  details: readonly string[]
  ran: readonly string[]
  skipped: number
  fault: string | undefined
  /** How often the pressure was at work. */
  pressed: number
  seconds: number
}>

export type Database = Readonly<{ url: string; population: unknown }> | undefined

export type RowPlace = Readonly<{ database: Database; memoryFolder: string | undefined; timeoutMs: number }>

type Seen = { failed: string[]; details: string[]; ran: string[]; skipped: number }

/** The names by which a test is found again: those of its blocks, without the file's. */
function watch(parser: Parser, path: readonly string[], seen: Seen): void {
  let hasTests = false
  parser.on('child', (child: Parser) => {
    hasTests = true
    watch(child, [...path, child.name], seen)
  })
  parser.on('assert', ({ skip, ok, name, diag }) => {
    if (skip) seen.skipped += 1
    if (!ok && diag) seen.details.push(`${name}: ${JSON.stringify({ ...diag, source: undefined }).slice(0, 500)}`)
  })
  parser.on('complete', ({ ok }) => {
    const name = path.join(' > ')
    if (name !== '') seen.ran.push(name)
    if (!ok && !hasTests) seen.failed.push(name)
  })
}

/** Runs a file in a process of its own, since a column changes the process. */
export async function playRow(column: Column, file: string, place: RowPlace): Promise<Row> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-defences-'))
  const evidence = join(folder, 'evidence')
  writeFileSync(evidence, '')
  const seen: Seen = { failed: [], details: [], ran: [], skipped: 0 }
  const worker = startTestProcess({ ...place, environment: { DEFENCES_COLUMN: column, DEFENCES_EVIDENCE: evidence } })
  try {
    const path = `test/advisories/${file}.test.ts`
    const { isOk, fault, seconds } = await worker.run(path, {
      timeoutMs: place.timeoutMs,
      onParser: (parser: Parser) => watch(parser, [], seen),
    })
    await worker.stop()
    const pressed = readFileSync(evidence, 'utf8')
      .split('\n')
      .reduce((sum, line) => sum + Number(line), 0)
    const failed = isOk || seen.failed.length > 0 ? seen.failed : ['']
    return { ...seen, column, file, failed, fault, pressed, seconds }
  } finally {
    await worker.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
