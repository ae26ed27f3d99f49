// Memory, descriptors and responses of a gateway under a day's mix of requests: `npm run soak -- --help`.
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Command, InvalidArgumentError } from 'commander'
import { drawNumbers } from '../test/support/event-streams.ts'
import { openRoute, until } from '../test/support/gateway.ts'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { countDescriptors, findMeasureLack, readLoad, readRss } from '../test/support/process-figures.ts'
import { type Replica, startReplica } from '../test/support/replicas.ts'
import { compareMoments, findExcesses, type Sample, type SoakFigures } from './soak/judge.ts'
import { type Play, playScenes } from './soak/play.ts'
import { composeScenes } from './soak/scenes.ts'
import { startSoakBackend } from './soak/start-backend.ts'
import { startBenchWorld } from './start-bench.ts'

type Options = Readonly<{ minutes: number; rate: number; memory: number; json?: boolean }>

const { minutes, rate, memory, json } = new Command('soak')
  .description('Send a mix of requests, bodies, tokens and streams for a while, with a reload each minute.')
  .option('--minutes <n>', 'length of the run', parseNumber, 30)
  .option('--rate <n>', 'scenes begun in a second; most are one request, a fifth are streams', parseNumber, 200)
  .option(
    '--memory <ratio>',
    'how much of its memory after a sixth of the time it may have at the end',
    parseNumber,
    1.1,
  )
  .option('--json', 'print the figures as one line of JSON')
  .addHelpText('after', '\nExits 1 where a response is wrong, or memory or descriptors grow.')
  .addHelpText('after', '\nExample:\n  $ npm run --silent soak -- --minutes 30 --rate 200')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const minuteMs = 60_000
const lastsMs = minutes * minuteMs
/** By then caches are full and code is compiled: the fifth minute of thirty. */
const baselineAtMs = Math.min(5 * minuteMs, lastsMs / 6)
const sampleEveryMs = Math.min(1_000, lastsMs / 200)
const tellEveryMs = Math.min(30_000, lastsMs / 5)
const reloadEveryMs = Math.min(minuteMs, lastsMs / 4)

const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => interruption.abort(new Error(`ended by ${signal}`)))

try {
  const lack = findMeasureLack(512)
  if (lack !== undefined) throw new Error(lack)
  const figures = await withOwner(soak)
  const excesses = findExcesses(figures, { rssRatio: memory })
  console.log(json ? JSON.stringify(figures) : describe(figures))
  for (const excess of excesses) console.error(`soak: ${excess}`)
  process.exitCode = excesses.length === 0 ? 0 : 1
} catch (error) {
  // After an interruption, every failure follows from it.
  const cause: unknown = interruption.signal.reason ?? error
  console.error(`soak: ${cause instanceof Error ? cause.message : String(cause)}`)
  process.exitCode = 1
}

async function soak(owner: Owner): Promise<SoakFigures> {
  console.error('starting a database and a gateway')
  const world = await startBenchWorld(owner)
  const backend = await startSoakBackend(owner)
  const policies = copyPolicies(owner)
  const upstreams = { platform: { url: backend }, agents: { url: backend } }
  const settings = { policies: { directory: policies } }
  const gateway = await startReplica(owner, { world, settings, upstreams })
  const play = playScenes(owner, gateway.public, composeScenes(world), rate, drawNumbers(1))
  const { samples, reloads } = await watch(gateway, play, policies)
  await play.stop()
  countErrors(gateway, play)
  for (const complaint of play.complaints()) console.error(`  ${complaint}`)
  const { baseline, end } = compareMoments(samples, baselineAtMs, lastsMs)
  return {
    requests: play.requests(),
    unexpected: play.unexpected(),
    reloads,
    baselineAtMinute: baselineAtMs / minuteMs,
    rssBaselineBytes: baseline.rssBytes,
    rssEndBytes: end.rssBytes,
    rssRatio: end.rssBytes / baseline.rssBytes,
    descriptorsBaseline: baseline.descriptors,
    descriptorsEnd: end.descriptors,
  }
}

/** Looks, tells and reloads until the time is up. */
async function watch(gateway: Replica, play: Play, policies: string) {
  const samples: Sample[] = []
  const startedMs = performance.now()
  let toldAtMs = 0
  let reloads = 0
  for (let atMs = 0; atMs < lastsMs; atMs = performance.now() - startedMs) {
    interruption.signal.throwIfAborted()
    samples.push({ atMs, rssBytes: readRss(gateway.pid), descriptors: countDescriptors(gateway.pid) })
    if (atMs >= toldAtMs) {
      console.error(tell(atMs, samples.at(-1), play))
      toldAtMs += tellEveryMs
    }
    if (atMs >= (reloads + 1) * reloadEveryMs) {
      reloads += 1
      // Without waiting: what is asked meanwhile is what a reload must not disturb.
      void reload(gateway, policies, reloads).catch((error: unknown) => play.complain(String(error)))
    }
    await sleep(sampleEveryMs)
  }
  return { samples, reloads }
}

/** Replaces one file of the table, and waits until it is in force. */
async function reload(gateway: Replica, policies: string, number: number): Promise<void> {
  const path = `/soak/${number}`
  writeFileSync(join(policies, '.soak'), JSON.stringify({ routes: [{ ...openRoute, id: 'soak', match: { path } }] }))
  renameSync(join(policies, '.soak'), join(policies, 'soak.yaml'))
  await until(async () => (await fetch(`${gateway.public}${path}`)).ok, `reload ${number}`, 10_000)
}

function copyPolicies(owner: Owner): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-soak-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  cpSync(fileURLToPath(new URL('../policies', import.meta.url)), directory, { recursive: true })
  return directory
}

/** Errors that no answer told of: those of requests have been seen as such. */
function countErrors(gateway: Replica, play: Play): void {
  for (const line of gateway.readLog().split('\n'))
    if (/"level":"?(?:error|fatal|50|60)\b/.test(line) && !line.includes('"status":'))
      play.complain('error in the log', line)
}

function toMegabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`
}

function tell(atMs: number, sample: Sample | undefined, play: Play): string {
  return [
    `minute ${(atMs / minuteMs).toFixed(1)}`,
    `${play.requests()} requests`,
    `${play.inFlight()} under way`,
    `${play.unexpected()} unexpected`,
    toMegabytes(sample?.rssBytes ?? 0),
    `${sample?.descriptors} descriptors`,
    `load ${readLoad()}`,
  ].join(', ')
}

function describe(figures: SoakFigures): string {
  return [
    `${figures.requests} requests, ${figures.unexpected} unexpected answers, ${figures.reloads} reloads`,
    `memory: ${toMegabytes(figures.rssBaselineBytes)} at minute ${figures.baselineAtMinute.toFixed(1)}, ${toMegabytes(figures.rssEndBytes)} at the end: ${figures.rssRatio.toFixed(3)}`,
    `descriptors: ${figures.descriptorsBaseline}, then ${figures.descriptorsEnd}`,
  ].join('\n')
}

function parseNumber(text: string): number {
  if (!/^\d{1,5}(?:\.\d{1,4})?$/.test(text) || Number(text) === 0)
    throw new InvalidArgumentError('not a number above 0')
  return Number(text)
}
