// Answers while an outside decision point fails, under load: `npm run bench:decisions -- --help`.
import { Command, InvalidArgumentError } from 'commander'
import {
  type FaultFigures,
  faultNames,
  faultRoutes,
  linkDecisionPoint,
  measureFault,
  startCountingBackend,
} from '../test/integrate/decision-faults.ts'
import { decisionPoints, type StartDecisionPoint } from '../test/support/decision-points.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { readLoad } from '../test/support/process-figures.ts'
import { startReplica } from '../test/support/replicas.ts'
import { oauth } from '../test/support/world.ts'
import { startBenchWorld } from './start-bench.ts'
import { findPercentile, renderTable } from './statistics.ts'

type Options = Readonly<{ requests: number; json?: boolean }>

const { requests, json } = new Command('bench:decisions')
  .description('Measure answers while OpenFGA, Cerbos and Keycloak are killed, frozen, slow and garbled under load.')
  .option('--requests <n>', 'requests that begin and end within each fault', parseCount, 4_000)
  .option('--json', 'print one line of JSON instead of the table')
  .addHelpText('after', '\nExits 1 where an answer of a fault takes more than 100 ms, or a request reaches the backend')
  .addHelpText('after', 'without a yes of the decision point.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:decisions -- --requests 1000')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const limitMs = 100
const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = decisionPoints.map(({ lack }) => lack).find((lack) => lack !== undefined)
  if (lack !== undefined) throw new Error(lack)
  const rows: Row[] = []
  for (const { name, start } of decisionPoints) rows.push(...(await withOwner((owner) => measure(owner, name, start))))
  if (json) console.log(JSON.stringify({ rows, load: readLoad() }))
  else console.log(render(rows))
  process.exitCode = rows.every(({ maxMs, unproven }) => maxMs <= limitMs && unproven === 0) ? 0 : 1
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`bench:decisions: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

type Row = Omit<FaultFigures, 'millis'> &
  Readonly<{ pdp: string; answers: number; medianMs: number; p99Ms: number; maxMs: number }>

async function measure(owner: Owner, pdp: string, start: StartDecisionPoint): Promise<readonly Row[]> {
  console.error(`starting a database, a backend, a gateway and ${pdp}`)
  const world = await startBenchWorld(owner)
  const { member } = world.users
  const backend = await startCountingBackend(owner)
  const real = await start(owner, member.id, world.objects.files.acme)
  const { link, settings } = await linkDecisionPoint(owner, real)
  const gateway = await startReplica(owner, {
    world,
    upstreams: { platform: { url: backend.url } },
    settings: { decisionPoints: settings, log: { level: 'error' } },
    routes: faultRoutes,
  })
  const fixture = { real, link, backend, gateway: gateway.public, headers: oauth(member) }
  const rows: Row[] = []
  for (const fault of faultNames) {
    interruption.signal.throwIfAborted()
    console.error(`${pdp}, ${fault}`)
    const { millis, ...figures } = await measureFault(owner, fixture, fault, requests)
    const times = { medianMs: findPercentile(millis, 0.5), p99Ms: findPercentile(millis, 0.99) }
    rows.push({ pdp, answers: millis.length, ...figures, ...times, maxMs: Math.max(...millis) })
  }
  return rows
}

function render(rows: readonly Row[]): string {
  const table = renderTable([
    ['decision point', 'answers', 'median ms', 'p99 ms', 'max ms', 'without a yes', 'permit after ms'],
    ...rows.map(({ pdp, fault, answers, medianMs, p99Ms, maxMs, unproven, recoveryMs }) => [
      `${pdp}, ${fault}`,
      String(answers),
      ...[medianMs, p99Ms, maxMs].map((ms) => ms.toFixed(1)),
      String(unproven),
      recoveryMs.toFixed(0),
    ]),
    ['limit', '', '', '', limitMs.toFixed(1), '0', ''],
  ])
  return `${table}\n\nload of the machine at the end: ${readLoad()}`
}

function parseCount(text: string): number {
  const count = Number(text)
  if (Number.isInteger(count) && count > 0) return count
  throw new InvalidArgumentError('It must be a whole number above 0.')
}
