import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, InvalidArgumentError } from 'commander'
import { startWorld } from '../../demo/world.ts'
import { withOwner } from '../support/owner.ts'
import { rewritingPlan } from './rewrites.ts'
import { runAnswers } from './run-answers.ts'
import { runDecisions } from './run-decisions.ts'
import { type FuzzReport, runFuzz } from './run-fuzz.ts'

const positive = (text: string): number => {
  const value = Number(text)
  if (!(value > 0)) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

const command = new Command('npm run fuzz --')
  .description('Send generated requests through a gateway and judge everything that reaches the backend.')
  .option('--minutes <number>', 'length of the run; an hour, unless --requests is given', positive)
  .option('--requests <number>', 'largest number of requests', positive, Number.POSITIVE_INFINITY)
  .option('--seed <number>', 'seed of a run that is to be repeated', positive, Math.floor(Math.random() * 1e9) + 1)
  .option('--clients <number>', 'connections at once', positive, 48)
  .option('--decisions', 'ask the decision listener instead, as a proxy does whose clients lie')
  .option('--rewrites', 'use routes and an upstream that change paths')
  .option('--answers', 'let a backend send bytes behind its answers, and judge what each client gets')
  .option('--tls', 'with --answers: TLS to the backend')
  .option('--workers <number>', 'with --answers: workers of the gateway', positive, 1)
  .option('--json', 'print the report as JSON')
  .addHelpText(
    'after',
    '\nExample:\n  npm run fuzz -- --minutes 5 --seed 42\n  npm run fuzz -- --requests 1000000 --decisions\n  npm run fuzz -- --requests 1000000 --answers --tls --workers 2\n',
  )
  .parse()

type Options = Readonly<{
  minutes?: number
  requests: number
  seed: number
  clients: number
  decisions?: boolean
  rewrites?: boolean
  answers?: boolean
  tls?: boolean
  workers: number
  json?: boolean
}>
const { minutes, requests, seed, clients, decisions, rewrites, answers, tls, workers, json } = command.opts<Options>()
const longestMinutes = minutes ?? (Number.isFinite(requests) ? Number.POSITIVE_INFINITY : 60)
const untilMs = performance.now() + longestMinutes * 60_000

console.error(`seed ${seed}; Ctrl-C ends the run and prints the report so far`)
let isInterrupted = false
process.once('SIGINT', () => {
  isInterrupted = true
})

const report = await withOwner(async (owner) => {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-fuzz-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const ports = { public: 0, decision: 0, admin: 0 }
  const world = await startWorld({ directory, ports, notify: (sentence) => console.error(sentence) })
  owner.teardown(world.stop)
  const isTimeUp = (): boolean => isInterrupted || performance.now() > untilMs
  const usual = { seed, requests, isTimeUp, clients, isTalkative: true }
  if (answers) return runAnswers(owner, world.description, { ...usual, isTls: tls === true, workers })
  const run = decisions ? runDecisions : runFuzz
  return run(owner, world.description, { ...usual, ...(rewrites && { plan: rewritingPlan }) })
})
if (json) console.log(JSON.stringify({ ...report, statuses: Object.fromEntries(report.statuses) }))
else print(report)
process.exitCode = report.violations.length > 0 ? 1 : 0

function print({ requests, arrived, statuses, violations, notes }: FuzzReport): void {
  const counts = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
  console.log(
    `${requests} requests, ${arrived} ${decisions ? 'permitted' : 'reached the backend'}; answers ${counts.join(', ')}`,
  )
  if (notes !== undefined) console.log(notes)
  console.log(`${violations.length} violations`)
  for (const { what, sent, arrived: bytes } of violations.slice(0, 10))
    console.log(`${what}\n  sent ${JSON.stringify(sent)}\n  arrived ${JSON.stringify(bytes)}`)
}
