// Faults of real programs under load, and what the gateway does: `npm run drill -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import { formatTable } from '../gateway/base/lib/text-table.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { addDefences } from './defences/command.ts'
import type { Drill } from './drill.ts'
import { listDrills } from './list-drills.ts'
import { play, type Result } from './play.ts'

type Options = Readonly<{
  list?: boolean
  all?: boolean
  seconds: number
  rate: number
  patience: number
  latency: boolean
  json?: boolean
}>

const parseNumber = (text: string): number => {
  const value = Number(text)
  if (!(value > 0)) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

const program = new Command('drill')
  .description('Break what the gateway depends on, under load, and compare what happens with documented limits.')
  .argument('[names...]', 'drills to play; the name "dependencies" means each drill of the table in the outage guide')
  .option('--list', 'print every drill')
  .option('--all', 'play every drill')
  .option('--seconds <n>', 'length of the fault', parseNumber, 60)
  .option('--rate <n>', 'requests a second', parseNumber, 200)
  .option('--patience <n>', 'multiply all limits of time by this, for a machine with other work to do', parseNumber, 1)
  .option('--no-latency', 'do not compare the p99 of unaffected requests with their p99 before the fault')
  .option('--json', 'print one line of JSON a drill')
  .addHelpText('after', '\nExits with 1 if a limit is missed, and with 2 if a drill cannot be played on this machine.')
  .action(playNamed)
addDefences(program)
const options = program.opts<Options>()
const drills = await listDrills()
await program.parseAsync()

async function playNamed(): Promise<void> {
  if (!options.list) {
    process.exitCode = await playAll(choose(options.all ? [...drills.keys()] : program.args))
    return
  }
  const rows = [...drills].map(([name, { about, cells }]) => [
    name,
    cells.map((cell) => cell.join(' ')).join(', '),
    about,
  ])
  process.stdout.write(formatTable(['drill', 'dependency and fault', 'what happens'], rows))
}

function choose(names: readonly string[]): readonly (readonly [string, Drill])[] {
  if (names.length === 0) program.error('name a drill; --list shows them all', { exitCode: 2 })
  return names.flatMap((name) => {
    if (name === 'dependencies') return [...drills].filter(([, { cells }]) => cells.length > 0)
    const drill = drills.get(name)
    if (!drill) program.error(`there is no drill ${name}; --list shows them all`, { exitCode: 2 })
    return drill ? [[name, drill] as const] : []
  })
}

async function playAll(chosen: readonly (readonly [string, Drill])[]): Promise<number> {
  let code = 0
  for (const [name, drill] of chosen) {
    const lack = drill.findLack?.()
    if (lack !== undefined) {
      console.error(`${name} cannot be played here: ${lack}`)
      code = Math.max(code, 2)
      continue
    }
    console.error(`${name}: ${drill.about}`)
    const result = await play(drill, {
      ...options,
      judgesLatency: options.latency,
      notify: (sentence) => console.error(`  ${sentence}`),
    })
    print(name, result)
    if (result.findings.some(({ isMet }) => !isMet)) code = 1
  }
  return code
}

function print(name: string, { figures, findings }: Result): void {
  const missed = findings.filter(({ isMet }) => !isMet).length
  if (options.json) {
    process.stdout.write(
      `${JSON.stringify({ drill: name, seconds: options.seconds, load: readLoad(), missed, findings })}\n`,
    )
    return
  }
  const tell = (statuses: ReadonlyMap<number, number>): string =>
    [...statuses].map(([status, count]) => `${status} x ${count}`).join(', ')
  const seen = figures.map(({ flow, phase, count, statuses, p99Ms, longestMs }) => [
    ...[flow, phase, String(count), tell(statuses)],
    ...[p99Ms.toFixed(1), longestMs.toFixed(1)],
  ])
  process.stdout.write(formatTable(['flow', 'phase', 'sent', 'answers', 'p99 ms', 'longest ms'], seen))
  const held = findings.map(({ check, seen, limit, isMet }) => [check, seen, limit, isMet ? 'held' : 'MISSED'])
  process.stdout.write(`\n${formatTable(['limit', 'seen', 'wanted', ''], held)}\n`)
  process.stdout.write(`${name}: ${findings.length - missed} limits held, ${missed} missed; load ${readLoad()}\n\n`)
}
