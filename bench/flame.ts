// The gateway's processor time as a picture: `npm run bench:flame -- --help`.
import { writeFileSync } from 'node:fs'
import { Command, InvalidArgumentError } from 'commander'
import { type Owner, withOwner } from '../test/support/owner.ts'
import { startReplica } from '../test/support/replicas.ts'
import { oauth } from '../test/support/world.ts'
import { type Profile, renderFlameGraph } from './flame-graph.ts'
import { findLack } from './peers/find-program.ts'
import { keepAwake } from './peers/keep-awake.ts'
import { drive } from './peers/load.ts'
import { startBackend } from './peers/nginx.ts'
import { startBenchWorld } from './start-bench.ts'

type Options = Readonly<{ out: string; title: string; seconds: number }>

const { out, title, seconds } = new Command('bench:flame')
  .description('Profile a gateway under load and draw a flame graph: callers above, callees below, idle time left out.')
  .option('--out <file>', 'file for the SVG', 'flame.svg')
  .option('--title <text>', 'title of the picture', 'Processor time of the gateway')
  .option('--seconds <n>', 'seconds of the profile, after as many to warm up', parseCount, 5)
  .addHelpText('after', '\nExample:\n  $ npm run --silent bench:flame -- --seconds 2 --out flame.svg')
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander's exit code for bad usage is 1; every program here ends with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse()
  .opts<Options>()

const profiled = { NODE_OPTIONS: `--import ${new URL('../test/support/tell-profile.js', import.meta.url)}` }

try {
  const lack = ['wrk', 'nginx'].map((program) => findLack(program, `Debian: apt-get install ${program}`)).find(Boolean)
  if (lack !== undefined) throw new Error(lack)
  writeFileSync(out, await withOwner(draw))
  console.log(out)
} catch (error) {
  console.error(`bench:flame: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}

async function draw(owner: Owner): Promise<string> {
  console.error(keepAwake(owner))
  const world = await startBenchWorld(owner)
  const upstreams = { platform: { url: `http://127.0.0.1:${await startBackend(owner)}` } }
  const replica = await startReplica(owner, { world, upstreams }, profiled)
  const asked = { url: `${replica.public}/datasets`, headers: [oauth(world.users.member)] }
  await drive(owner, asked, 64, seconds)
  await replica.ask('start')
  const { requests } = await drive(owner, asked, 64, seconds)
  const profile = (await replica.ask('stop')) as Profile
  return renderFlameGraph(profile, `${title}, ${requests} requests in ${seconds} s`, requests)
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,2}$/.test(text)) throw new InvalidArgumentError('not a number from 1 to 999')
  return Number(text)
}
