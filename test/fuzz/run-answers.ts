import { setTimeout as sleep } from 'node:timers/promises'
import { createAuthority } from '../support/certificates.ts'
import { type Owner, withOwner } from '../support/owner.ts'
import type { BackendFigures } from '../support/tagged/backend.ts'
import {
  type Ask,
  type Caller,
  isOfAnotherOrganization,
  newFigures,
  openTaggedClient,
  type SendAsks,
  startPatience,
} from '../support/tagged/client.ts'
import { callersOf, type Described, startTaggedFixture, type TaggedFixture } from '../support/tagged/fixture.ts'
import { type Drawn, drawAsk, originsFor, sendsLate } from './answers.ts'
import { reportProgress } from './report-progress.ts'
import type { FuzzOptions, FuzzReport, Violation } from './run-fuzz.ts'

export type AnswersOptions = FuzzOptions & Readonly<{ isTls?: boolean; workers?: number }>

export type AnswersReport = FuzzReport & Readonly<{ notes: string; backend: Readonly<BackendFigures> }>

/** Then another gateway starts, which believes each origin again. */
const requestsOfFixture = 100_000

/** Places of large answers, behind those of all others. */
const floodPlaces = 2
const floodBytes = 8_000_000

/**
 * Sends requests of several organizations, whose answers are planned, over connections that they share. Each byte of a body
 * tells whose it is.
 */
export async function runAnswers(owner: Owner, world: Described, options: AnswersOptions): Promise<AnswersReport> {
  const { seed, requests, isTimeUp, clients, isTalkative, isTls, workers = 1 } = options
  const callers = callersOf(world)
  const authority = isTls ? createAuthority(owner) : undefined
  const figures = newFigures()
  const passedMs = startPatience(owner)
  const backend: BackendFigures = { requests: 0, reused: 0, crossed: 0, surplus: 0, spoilt: 0, open: 0, foreign: [] }
  const violations: Violation[] = []
  let places: readonly string[] = []
  let number = 0
  const look = (): void => {
    for (const { asked, place, got, text } of figures.foreign.splice(0))
      if (!sendsLate(places.indexOf(place)) || isOfAnotherOrganization({ asked, got }))
        violations.push({
          what: `${asked} at ${place}, request ${number}, got ${got ?? 'unknown bytes'}`,
          sent: undefined,
          arrived: text,
        })
    for (const what of figures.hung.splice(0)) violations.push({ what: `hung: ${what}`, sent: undefined, arrived: '' })
  }
  const generate = function* (): Generator<Drawn> {
    for (; number < requests && !isTimeUp() && violations.length === 0; number += 1)
      yield drawAsk(seed, number, callers, places)
  }
  const generated = isTalkative ? reportProgress(generate(), `answers, seed ${seed}`) : generate()

  /** Sends the requests of one fixture; tells whether there are more. */
  const play = async (fixture: TaggedFixture): Promise<boolean> => {
    const { replica } = fixture
    const open = (): SendAsks => openTaggedClient(owner, { origin: replica.public, figures, passedMs })
    places = fixture.places.slice(0, -floodPlaces)
    const end = number + requestsOfFixture
    let isOver = false
    const take = (): Drawn | undefined => {
      const next = number < end && !isOver ? generated.next() : undefined
      if (next?.done) isOver = true
      return next?.done ? undefined : next?.value
    }
    const work = async (): Promise<void> => {
      const send = open()
      for (let first = take(); first; first = take()) {
        const asks: Ask[] = [first.ask]
        while (asks.length <= first.followers) {
          const follower = take()
          if (!follower) break
          asks.push(follower.ask)
        }
        if (first.restMs > 0) await sleep(first.restMs)
        await send(asks, first.manners)
        look()
      }
    }
    let isFlooding = true
    const flood = async (asks: readonly Ask[]): Promise<void> => {
      const send = open()
      while (isFlooding) {
        const beganMs = performance.now()
        await send(asks)
        // A rest of four times its length leaves processor time to the requests.
        await sleep(4 * (performance.now() - beganMs))
      }
    }
    const floods = fixture.places.slice(-floodPlaces).map((place) => flood(composeFlood(callers[0], place)))
    await Promise.all(Array.from({ length: clients }, work))
    isFlooding = false
    await Promise.all(floods)
    look()
    const figuresNow = await settle(fixture)
    add(backend, figuresNow)
    if (figuresNow.open > 0)
      violations.push({ what: `${figuresNow.open} connections were never closed`, sent: undefined, arrived: '' })
    const code = await replica.stop()
    if (code !== 0)
      violations.push({ what: `the gateway ended with ${code}`, sent: undefined, arrived: replica.readLog() })
    return !isOver
  }

  const origins = originsFor(Math.min(requests, requestsOfFixture)) + floodPlaces
  const playNext = (): Promise<boolean> =>
    withOwner(async (fixtureOwner) =>
      play(await startTaggedFixture(fixtureOwner, { world, origins, workers, ...(authority && { authority }) })),
    )
  while (await playNext());
  for (const what of backend.foreign) violations.push({ what, sent: undefined, arrived: '' })
  const { own, refused, broken, unanswered, left } = figures
  return {
    requests: number,
    arrived: backend.requests,
    statuses: new Map([[200, own], ...refused]),
    violations,
    notes: `${own} got their own answer alone, ${left} left, ${broken} broke, ${unanswered} had no answer; ${tell(backend)}`,
    backend,
  }
}

/** Longer than a connection is kept idle. */
const idleMs = 10_000

/** The figures of a backend when each connection to it is closed, or ought to be. */
async function settle({ backend }: TaggedFixture): Promise<BackendFigures> {
  const untilMs = performance.now() + idleMs
  for (;;) {
    const figures = await backend.figures()
    if (figures.open === 0 || performance.now() > untilMs) return figures
    await sleep(100)
  }
}

/** An upload that is refused, with a request behind it that waits for its end, and a large answer. */
const composeFlood = (caller: Caller, place: string): readonly Ask[] => {
  const plan = { status: 200, framing: 'length', bytes: 0 } as const
  const stranger = { ...caller, headers: {} }
  return [
    { caller: stranger, number: 0, place, method: 'POST', plan, upload: { bytes: floodBytes, isChunked: false } },
    { caller, number: 0, place, method: 'GET', plan: { ...plan, bytes: floodBytes } },
  ]
}

function add(sum: BackendFigures, { foreign, ...counts }: BackendFigures): void {
  for (const name of ['requests', 'reused', 'crossed', 'surplus', 'spoilt'] as const) sum[name] += counts[name]
  sum.foreign.push(...foreign)
}

const tell = ({ reused, crossed, surplus, spoilt }: BackendFigures): string =>
  `${reused} came on a connection that had served another, ${crossed} of these on one of another organization; ` +
  `${surplus} answers of ${spoilt} origins had a surplus`
