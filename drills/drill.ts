import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync } from 'node:fs'
import { openPipe } from '../bench/open-pipe.ts'
import type { EmbeddedPostgres } from '../demo/postgres.ts'
import { guarded } from '../gateway/base/fault/guarded.ts'
import type { Owner } from '../test/support/owner.ts'
import type { DrillFixture } from './fixture.ts'
import type { FlowName, Flows } from './flows.ts'

/** A dependency of the gateway, and a kind of fault of it: a cell in docs/explanation/outages.md. */
export type Cell = readonly [dependency: string, fault: string]

/** Statuses that a flow may show while the fault lasts, beside its usual answers. */
export type Expectation = Readonly<{
  /** Statuses that refuse; 0 is a connection that broke. */
  statuses: readonly number[]
  /** The longest that any answer may take. */
  withinMs: number
  /** The part of the requests that may get them; 1 where it is left out. */
  share?: number
}>

/** A figure that a drill looks up for itself, in words. */
export type Finding = Readonly<{ check: string; seen: string; limit: string; isMet: boolean }>

/** A fault of a real program under load, and what has to hold while it lasts and after it. */
export type Drill = Readonly<{
  /** One sentence: the fault. */
  about: string
  cells: readonly Cell[]
  /** The alerts of helm/sallyport/files/alerts.yaml that it rehearses. */
  alerts?: readonly string[]
  /** Whether it is part of the short set, which the tests run. */
  isShort?: boolean
  /** Whether the fault is one of another gateway on the same database, which runs in such a drill alone. */
  hasPeer?: boolean
  /** The reason why this machine cannot play the drill; undefined where it can. */
  findLack?: () => string | undefined
  /** Starts the database of the fixture, where it is not a PostgreSQL of its own. */
  startDatabase?: (owner: Owner, notes: DrillFixture['notes']) => Promise<EmbeddedPostgres>
  /** The flows as this drill sends them. */
  adapt?: (flows: Flows) => Flows
  /** Options of the gateway, beside the fixture's own. */
  prepare?: (fixture: DrillFixture) => GatewayOptions | Promise<GatewayOptions>
  begin: (fixture: DrillFixture) => unknown
  end: (fixture: DrillFixture) => unknown
  /** The effects by flow; a flow that is not named must notice nothing. */
  expect?: Partial<Record<FlowName, Expectation>>
  /** Whether answers that are slower by half prove the effect of the fault too, even if none is refused. */
  isMild?: boolean
  /** The time after the fault within which everything is as before; 2,000 ms where it is left out. */
  goodAfterMs?: number
  /** Findings while the fault lasts, and when everything is over. */
  lookDuring?: (fixture: DrillFixture) => Promise<readonly Finding[]>
  lookAfter?: (fixture: DrillFixture) => Promise<readonly Finding[]>
}>

export type GatewayOptions = Readonly<{
  /** Whole top-level sections of the configuration. */
  settings?: Readonly<Record<string, unknown>>
  /** The section of the upstream, in place of one with a single address. */
  upstream?: Readonly<Record<string, unknown>>
  environment?: Readonly<Record<string, string>>
  /** A descriptor in place of the log's file. */
  output?: number
  /** The first words of a command that runs the gateway. */
  within?: readonly string[]
  /** The domain of each dependency's name, `database.` and so on, instead of an address. */
  domain?: string
}>

/** Every flow that needs the directory, refused with 503 by its time-out. */
export const withoutDirectory = (withinMs: number): Partial<Record<FlowName, Expectation>> => {
  const refused = { statuses: [503], withinMs }
  return { session: refused, token: refused, unknown: refused, revoked: refused, newcomer: refused }
}

/** Every flow that goes on to the upstream, with these statuses in the place of its answers. */
export const withoutUpstream = (withinMs: number, statuses = [503]): Partial<Record<FlowName, Expectation>> => {
  const refused = { statuses, withinMs }
  return { public: refused, session: refused, token: refused, newcomer: refused }
}

/** Calls back in turns, first with true. The last call is with false, when the result is called or the owner ends. */
export function alternate(
  owner: Owner,
  stillMs: number,
  goingMs: number,
  turn: (isStill: boolean) => void,
): () => void {
  let timer: NodeJS.Timeout | undefined
  let isStill = false
  const next = (): void => {
    isStill = !isStill
    turn(isStill)
    timer = setTimeout(guarded('process', next), isStill ? stillMs : goingMs)
  }
  const stop = (): void => {
    clearTimeout(timer)
    if (isStill) turn(false)
    isStill = false
  }
  owner.teardown(stop)
  next()
  return stop
}

/** A pipe for standard output, with a program that reads it. */
export function pipeLog(fixture: DrillFixture): number {
  const { reading, writing } = openPipe(fixture.owner)
  const reader = spawn('cat', [], { stdio: [reading, 'ignore', 'ignore'] })
  // If this end stayed open, this process would be a second reader.
  closeSync(reading)
  fixture.owner.teardown(() => {
    reader.kill('SIGKILL')
    closeSync(writing)
  })
  fixture.notes.set('reader', reader)
  return writing
}

export const readerOf = ({ notes }: DrillFixture): ChildProcess => notes.get('reader') as ChildProcess

export async function findDropped({ metric }: DrillFixture): Promise<readonly Finding[]> {
  const dropped = await metric('sallyport_log_lines_dropped_total')
  return [{ check: 'log lines dropped', seen: `${dropped}`, limit: '> 0', isMet: dropped > 0 }]
}
