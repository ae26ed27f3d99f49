import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createAuthority, testCertificates } from '../support/certificates.ts'
import { withOwner } from '../support/owner.ts'
import { populate } from '../support/population.ts'
import type { AnswerPlan } from '../support/tagged/answer-plan.ts'
import {
  type AskFigures,
  type Caller,
  type Foreign,
  isOfAnotherOrganization,
  newFigures,
  openTaggedClient,
  startPatience,
} from '../support/tagged/client.ts'
import {
  callersOf,
  startTaggedFixture,
  type TaggedFixture,
  type TaggedFixtureOptions,
} from '../support/tagged/fixture.ts'
import { startTestWorld } from '../support/world.ts'
import { type Flood, floods, startFlood } from './floods.ts'

const world = await startTestWorld(t)
const callers = callersOf(world)
const passedMs = startPatience(t)

/** Requests of all scenes together. */
const campaign = Number(process.env.CAMPAIGN) || 0

const clean: AnswerPlan = { status: 200, framing: 'length', bytes: 200 }

type Scene = Readonly<{ flood?: Flood; plan: (number: number) => AnswerPlan }>

/** Bytes of answers with their heads. A read of the gateway ends with most of them, so that the surplus is left for the next. */
const sizes = [16_384, 16_000, 49_152, 65_536, 1_048_576]

/**
 * A whole second answer follows, which is private to the organization that asked. With TLS its first record has to be longer
 * than what the gateway reads at once, or it comes out together with the end of the answer.
 */
const poison = { kind: 'answer', bytes: 40_000 } as const

const answerOf =
  (wholeBytes: number, isSlow: boolean): Scene['plan'] =>
  (number) => ({
    ...clean,
    bytes: wholeBytes - 600,
    wholeBytes,
    surplus: { ...poison, timing: 'joined' },
    ...(isSlow && { delayMs: 2 + (number % 5) }),
  })

const scenes: readonly Scene[] = floods.flatMap((flood) =>
  [false, true].flatMap((isSlow) => sizes.map((size) => ({ flood, plan: answerOf(size, isSlow) }))),
)

const lateBy = (lateMs: number): readonly Scene[] => [
  { plan: () => ({ ...clean, surplus: { ...poison, timing: 'late', lateMs } }) },
]

/** An origin that sent a surplus is not reused for a while, so each of very many has few requests. */
const attackers = 4
const attacks = 2
const usualOrigins = 2
const requestsOfOrigin = 40

/** Longer than the silence after which another organization may get a connection. */
const lullMs = 40

/** Time of visits before the attack: measured, requests at different moments meet the hole more often than one crowd. */
const visitsMs = 15

/** The beginnings of the paths by which organizations ask one origin. */
type Place = (caller: Caller) => string

let number = 0

/** At each origin a few clients get answers with a surplus, and the others clean ones, on connections that all may share. */
async function play(origin: string, figures: AskFigures, places: readonly Place[], { plan }: Scene): Promise<void> {
  await withOwner(async (owner) => {
    const clients = [...callers, ...callers].map((caller) => {
      const sendAsks = openTaggedClient(owner, { origin, figures, passedMs })
      const send = (place: Place, planned: AnswerPlan) =>
        sendAsks([{ caller, number: ++number, place: place(caller), method: 'GET', plan: planned }])
      return { organization: caller.organization, send }
    })
    type Client = (typeof clients)[number]
    // One organization leaves connections for all: each prefers those that it had last.
    const warming = (turn: number) => callers[turn % 2]?.organization
    for (const [turn, place] of places.entries())
      await Promise.all(clients.map(({ organization, send }) => organization === warming(turn) && send(place, clean)))
    await sleep(lullMs)
    for (const place of places) {
      let isOver = false
      const attack = async ({ send }: Client): Promise<void> => {
        for (let round = 0; round < attacks; round += 1) await send(place, plan(number))
      }
      const visit = async ({ send }: Client): Promise<void> => {
        while (!isOver) await send(place, clean)
      }
      const visits = clients.slice(attackers).map(visit)
      await sleep(visitsMs)
      await Promise.all(clients.slice(0, attackers).map(attack))
      isOver = true
      await Promise.all(visits)
    }
  })
}

type Campaign = Pick<TaggedFixtureOptions, 'workers' | 'authority' | 'upstream'> &
  Readonly<{
    scenes: readonly Scene[]
    /** The part of all requests. */
    share: number
    isFault?: (foreign: Foreign) => boolean
    /** Whether no two organizations may share a connection. */
    isApart?: boolean
    /** The places of these origins, where they are not the upstreams'. */
    locate?: (fixture: TaggedFixture, from: number, to: number) => Promise<readonly Place[]>
  }>

const upstreamsOf: NonNullable<Campaign['locate']> = async ({ places }, from, to) =>
  places.slice(from, to).map((place) => () => place)

async function playAll(t: Test, options: Campaign): Promise<void> {
  const { scenes, share, isFault = () => true, isApart = false, locate = upstreamsOf } = options
  const count = Math.max(usualOrigins, Math.ceil((campaign * share) / scenes.length / requestsOfOrigin))
  const origins = count * scenes.length
  const fixture = await startTaggedFixture(t, { ...options, world, origins: 2 + origins })
  const origin = fixture.replica.public
  const figures = newFigures()
  const flooded = { origin, figures: newFigures(), passedMs, caller: callers[1], places: fixture.places.slice(0, 2) }
  const playThese = async (chosen: readonly (readonly [number, Scene])[]): Promise<void> => {
    for (const [index, scene] of chosen) {
      const from = 2 + index * count
      await play(origin, figures, await locate(fixture, from, from + count), scene)
    }
  }
  for (const flood of [...floods, undefined])
    await withOwner(async (owner) => {
      const chosen = [...scenes.entries()].filter(([, scene]) => scene.flood === flood)
      if (flood && chosen.length > 0) await startFlood(owner, flood, flooded)
      await playThese(chosen)
    })
  const { asked, own, foreign, hung } = figures
  const backend = await fixture.backend.figures()
  const faults = foreign.filter(isFault)
  const line = `${asked} asked, ${faults.length} foreign; the backend: ${JSON.stringify(backend)}`
  if (campaign > 0) console.error(`${t.name}: ${line}`)
  t.same([...faults, ...flooded.figures.foreign].slice(0, 3), [], line)
  t.same([hung, backend.foreign], [[], []], 'each request was answered, and none brought foreign bytes')
  // Late bytes answer one request each, of the same organization; a slow gateway has few others beside those.
  const harmed = Math.max(asked * 0.1, backend.surplus)
  t.ok(own >= asked - harmed, `${own} of ${asked} got their own`)
  t.ok(backend.surplus > origins, `${backend.surplus} had a surplus`)
  t.ok(backend.reused > 2 * origins, `${backend.reused} came on a connection that had served another`)
  if (isApart) t.equal(backend.crossed, 0, 'none came on a connection that had served another organization')
  else t.ok(backend.crossed > origins / 2, `${backend.crossed} came on one that had served another organization`)
}

/** Each scene on one of the four fixtures, and each size on each of them. */
const few = (turn: number): readonly Scene[] =>
  campaign > 0
    ? scenes
    : scenes.filter((_, index) => (Math.floor(index / sizes.length) + (index % sizes.length) + turn) % 4 === 0)

for (const [turn, workers] of [1, 2, 1, 2].entries()) {
  const isTls = turn >= 2
  const name = `bytes behind an answer reach no other request, by ${workers === 1 ? 'one worker' : 'two workers'}${isTls ? ' and TLS' : ''}`
  const run = (t: Test) =>
    playAll(t, { scenes: few(turn), share: 1 / 4, workers, ...(isTls && { authority: createAuthority(t) }) })
  if (isTls) testCertificates(t, name, run)
  else t.test(name, run)
}

t.test('bytes that come soon after an answer reach no other organization', (t) =>
  playAll(t, { scenes: lateBy(3), share: 1 / 20, workers: 1, isFault: isOfAnotherOrganization }),
)

t.test('late bytes reach no other organization where an upstream keeps them apart', (t) =>
  playAll(t, {
    ...{ scenes: lateBy(2 * lullMs), share: 1 / 20, workers: 1, isFault: isOfAnotherOrganization, isApart: true },
    upstream: { isolate: 'organization' },
  }),
)

t.test(
  'late bytes from the cluster of an organization reach none of another’s, though both name one origin',
  async (t) => {
    const { insert } = await populate(t, world)
    const addCluster = (organization: 'acme' | 'globex', port: number): Promise<number> =>
      insert(
        `clusters (organization_id, name, slug, base_url, status, last_heartbeat_at) values ($1, $2, $2, $3, 'active', now())`,
        [world.organizations[organization].id, `at-${port}`, `http://127.0.0.1:${port}`],
      )
    const locate: Campaign['locate'] = async ({ backend }, from, to) => {
      const places: Place[] = []
      for (const port of backend.ports.slice(from, to)) {
        const ids = { acme: await addCluster('acme', port), globex: await addCluster('globex', port) }
        places.push(({ organization }) => `clusters/${organization === 'acme' ? ids.acme : ids.globex}/proxy`)
      }
      return places
    }
    await playAll(t, {
      scenes: lateBy(3),
      share: 1 / 20,
      workers: 1,
      isFault: isOfAnotherOrganization,
      isApart: true,
      locate,
    })
  },
)
