import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Owner } from '../test/support/owner.ts'
import type { Change, Subject } from './changes.ts'
import { type MassFigures, openCrowd, removeAtOnce, rounds } from './mass-removal.ts'
import { giveUpMs } from './measure-change.ts'
import { addMembers } from './prepare-subjects.ts'
import type { Figures } from './run-change.ts'
import type { Bench } from './start-bench.ts'
import { findPercentile } from './statistics.ts'

export type OpenOptions = Readonly<{
  /** Exchanges that are open at both replicas together. */
  open: number
  /** Those of them that each kind of change ends. */
  count: number
  /** Those of them whose callers lose their organization in one statement, of several. */
  atOnce: number
  nowMs: () => number
  notify: (sentence: string) => void
  signal: AbortSignal
}>

/** The figures of what was open; `acceptedAfter` counts exchanges that went on. */
export type OpenFigures = Readonly<{
  ended: readonly Figures[]
  atOnce: MassFigures
  bystanders: number
  harmed: number
}>

/** An open exchange as its client sees it. */
export type Watched = Readonly<{ socket: Socket; ended: Promise<number>; lastHeardAtMs: () => number }>

/** Side by side, so that the machine still breathes. */
const parallel = 50

/** Changes are made at this pace, whether the ones before were felt or not. */
const perSecond = 50

/** Callers who keep their rights, and whose requests are timed meanwhile. */
const askers = 8

/** Each stream has an event a second. */
const silenceMs = 5_000

/** Opens an exchange for each caller, changes the rights of some, and looks at all of them. */
export async function runOpenChanges(
  owner: Owner,
  kinds: readonly Change[],
  bench: Bench,
  options: OpenOptions,
): Promise<OpenFigures> {
  const { database, world, origins } = bench
  const { open, count, atOnce, nowMs, notify, signal } = options
  const others = open - count * kinds.length - atOnce * rounds
  if (others < 0)
    throw new Error(
      `${kinds.length} kinds of ${count} changes, and ${rounds} times ${atOnce} at once, take more than ${open} open exchanges`,
    )
  const openAll = (subjects: readonly Pick<Subject, 'path' | 'headers'>[]): Promise<readonly Watched[]> =>
    openExchanges(owner, origins, subjects, nowMs)
  notify(`opening ${others} exchanges of callers who keep their rights`)
  const members = others > 0 ? await addMembers(database, world, others) : []
  const bystanders = await openAll(members.map(({ headers }) => ({ path: '/datasets', headers })))
  const prepared = []
  for (const kind of kinds) {
    signal.throwIfAborted()
    notify(`opening ${count} exchanges that end with ${kind.name}`)
    const subjects = await kind.prepare(count)
    prepared.push({ kind, subjects, watched: await openAll(subjects) })
  }
  notify(`opening ${rounds} times ${atOnce} exchanges of callers who lose their organization at once`)
  const crowds = []
  for (let round = 0; round < rounds; round++)
    crowds.push(await openCrowd(owner, origins, await addMembers(database, world, atOnce)))
  const asking = await addMembers(database, world, askers)
  notify(`one statement takes the organization from ${atOnce} of them, ${rounds} times`)
  const mass = await removeAtOnce(owner, bench, crowds, asking, giveUpMs)
  const ended: Figures[] = []
  for (const { kind, subjects, watched } of prepared) {
    notify(`${kind.name}: ${count} changes, ${perSecond} a second`)
    const change = (subject: Subject, index: number) => timeEnd(subject, watched[index], index, options)
    ended.push(summarise(kind.name, await Promise.all(subjects.map(change))))
  }
  return { ended, atOnce: mass, bystanders: others, harmed: await countHarmed(bystanders, nowMs) }
}

export async function openExchanges(
  owner: Owner,
  origins: readonly string[],
  subjects: readonly Pick<Subject, 'path' | 'headers'>[],
  nowMs: () => number,
): Promise<readonly Watched[]> {
  const all: Watched[] = []
  owner.teardown(() => {
    for (const { socket } of all) socket.destroy()
  })
  let next = 0
  const openSome = async (): Promise<void> => {
    for (let index = next++; index < subjects.length; index = next++) {
      const subject = subjects[index] as Subject
      all[index] = await openOne(new URL(origins[index % origins.length] ?? ''), subject, nowMs)
    }
  }
  await Promise.all(Array.from({ length: parallel }, openSome))
  return all
}

function openOne(
  { hostname, port }: URL,
  { path, headers }: Pick<Subject, 'path' | 'headers'>,
  nowMs: () => number,
): Promise<Watched> {
  const socket = connect(Number(port), hostname)
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.write(`GET ${path} HTTP/1.1\r\nhost: api.example.com\r\naccept: text/event-stream\r\n${fields.join('')}\r\n`)
  socket.on('error', () => {})
  let heardAtMs = 0
  const ended = new Promise<number>((resolve) => socket.on('close', () => resolve(nowMs())))
  const watched: Watched = { socket, ended, lastHeardAtMs: () => heardAtMs }
  return new Promise((resolve, reject) => {
    void ended.then(() => reject(new Error('an exchange ended before it was open')))
    socket.once('data', (head) => {
      if (head.toString('latin1').startsWith('HTTP/1.1 200')) resolve(watched)
      else reject(new Error(`no exchange: ${head.toString('latin1')}`))
    })
    socket.on('data', () => {
      heardAtMs = nowMs()
    })
  })
}

/** Milliseconds from the commit to the end at the client; `giveUpMs` where there was none. */
async function timeEnd(
  { change }: Subject,
  watched: Watched | undefined,
  index: number,
  { nowMs, signal }: OpenOptions,
): Promise<number> {
  await sleep((index * 1_000) / perSecond, undefined, { signal })
  await change()
  const committedAtMs = nowMs()
  const gaveUp = sleep(giveUpMs, Number.POSITIVE_INFINITY, { ref: false })
  const endedAtMs = await Promise.race([watched?.ended, gaveUp])
  return Math.min(giveUpMs, Math.max(0, (endedAtMs ?? Number.POSITIVE_INFINITY) - committedAtMs))
}

function summarise(name: string, tookMs: readonly number[]): Figures {
  const [medianMs = 0, p99Ms = 0, maxMs = 0] = [0.5, 0.99, 1].map(
    (share) => Math.round(findPercentile(tookMs, share) * 100) / 100,
  )
  const acceptedAfter = tookMs.filter((ms) => ms >= giveUpMs).length
  return { change: name, count: tookMs.length, medianMs, p99Ms, maxMs, acceptedAfter }
}

/** Those that ended, and those that hear no event any more. */
async function countHarmed(bystanders: readonly Watched[], nowMs: () => number): Promise<number> {
  const startedMs = nowMs()
  await sleep(silenceMs)
  return bystanders.filter(({ socket, lastHeardAtMs }) => socket.destroyed || lastHeardAtMs() < startedMs).length
}
