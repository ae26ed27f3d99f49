import { availableParallelism } from 'node:os'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { formatTable } from '../../gateway/base/lib/text-table.ts'
import { type Column, columns } from '../../test/support/press/column.ts'
import { namedRows } from './named-rows.ts'
import { type Cell, findReason, findStrangers, listAdvisories, type Played, playCells } from './play-defences.ts'
import type { Database } from './play-row.ts'

type Options = Readonly<{ only?: readonly string[]; column?: readonly Column[]; jobs: number; list?: boolean }>

type Databases = Readonly<{
  findMemoryFolder: () => string | undefined
  startTestDatabase: (
    folder: string | undefined,
  ) => Promise<NonNullable<Database> & Readonly<{ stop: () => Promise<unknown> }>>
}>

/** An hour for a file of a campaign, and a quarter of one for any other. */
const timeoutMs = process.env.CAMPAIGN ? 3_600_000 : 900_000

const parseJobs = (text: string): number => {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('It must be a whole number above 0.')
  return value
}

const examples = `
Columns:
  reads    other sockets have spent the reading time of each turn
  memory   others fill the budget of held memory
  account  the account of each client and organization is throttled
  writes   each write of the gateway waits for its peer
  workers  two workers
  tls      TLS between client and gateway, and between gateway and upstreams

Examples:
  npm run drill -- defences                                      the whole matrix
  npm run drill -- defences --column reads                       one column
  npm run drill -- defences --only foreign-answers               one file
  npm run drill -- defences --list                               the tests that are named with a reason
  CAMPAIGN=20000 npm run drill -- defences --only foreign-answers   with its full counts

Exits with 1 if a test is red, if a pressure was not at work, or if the list names a test that is not there.`

/** Adds `drill defences`. */
export function addDefences(program: Command): void {
  program
    .command('defences')
    .description('run the advisory tests once more under each pressure of load')
    .option('--only <tests...>', 'names of advisory tests')
    .addOption(new Option('--column <columns...>', 'pressures').choices(columns))
    .option('--jobs <n>', 'test files at a time', parseJobs, availableParallelism() + 1)
    .option('--list', 'print the tests that do not run, with their reasons')
    .addHelpText('after', examples)
    .action(async (options: Options) => {
      process.exitCode = options.list ? list() : await playMatrix(options)
    })
}

function list(): number {
  const rows = namedRows.map(({ file, test, columns, reason }) => [
    ...[file, test ?? '', columns === 'all' ? 'all' : columns.join(', ')],
    reason,
  ])
  process.stdout.write(formatTable(['file', 'test', 'columns', 'does not run, because'], rows))
  return 0
}

async function playMatrix({ only, column, jobs }: Options): Promise<number> {
  const files = listAdvisories()
  const strangers = [
    ...findStrangers(files),
    ...(only ?? []).filter((name) => !files.includes(name)).map((name) => `there is no ${name}.test.ts`),
  ]
  for (const sentence of strangers) console.error(sentence)
  const rows = only ?? files
  const cells = (column ?? columns).flatMap((name) =>
    rows.flatMap((file): readonly Cell[] => (findReason(file, name) === undefined ? [[name, file]] : [])),
  )
  const startedMs = performance.now()
  let count = 0
  const played = await playInDatabase(cells, { jobs, timeoutMs }, (one) => {
    count += 1
    tell(one, `${count}/${cells.length}`)
  })
  summarize(played, rows, performance.now() - startedMs)
  return strangers.length > 0 || cells.length === 0 || played.some(({ faults }) => faults.length > 0) ? 1 : 0
}

/** Plays test files on one PostgreSQL of their own, which each world clones. */
export async function playInDatabase(
  cells: readonly Cell[],
  how: Readonly<{ jobs: number; timeoutMs: number }>,
  onPlayed: (played: Played) => void,
): Promise<readonly Played[]> {
  const url = new URL('../../scripts/test-database.js', import.meta.url).href
  const { findMemoryFolder, startTestDatabase } = (await import(url)) as Databases
  const memoryFolder = findMemoryFolder()
  const database = await startTestDatabase(memoryFolder)
  try {
    return await playCells(cells, { ...how, database, memoryFolder }, onPlayed)
  } finally {
    await database.stop()
  }
}

function tell({ row, faults }: Played, place: string): void {
  const { column, file, seconds, pressed, skipped, ran } = row
  const counts = `${ran.length} tests${skipped > 0 ? `, ${skipped} skipped` : ''}, pressed ${pressed} times`
  console.error(
    `${place} ${faults.length === 0 ? 'green' : 'RED  '} ${column} ${file} (${seconds.toFixed(1)} s, ${counts})`,
  )
  if (faults.length > 0) for (const line of [...faults, ...row.details]) console.error(`    ${line}`)
}

function summarize(played: readonly Played[], files: readonly string[], tookMs: number): void {
  const cell = (file: string, column: Column): string => {
    const one = played.find(({ row }) => row.file === file && row.column === column)
    if (one) return one.faults.length === 0 ? 'green' : 'RED'
    return findReason(file, column) === undefined ? '' : 'named'
  }
  const lines = files
    .filter((file) => played.some(({ row }) => row.file === file))
    .map((file) => [file, ...columns.map((column) => cell(file, column))])
  process.stdout.write(formatTable(['file', ...columns], lines))
  const red = played.filter(({ faults }) => faults.length > 0).length
  const minutes = (tookMs / 60_000).toFixed(1)
  process.stdout.write(`${played.length} played in ${minutes} minutes, ${red} red\n`)
}
