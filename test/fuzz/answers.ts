import { drawNumbers } from '../support/event-streams.ts'
import type { AnswerPlan, Surplus } from '../support/tagged/answer-plan.ts'
import type { Ask, Caller, Manners } from '../support/tagged/client.ts'

/**
 * Origins that are asked at the same time, and the requests in which they are. Then others take their places: an origin that
 * sent a surplus is not reused for a while, and would try a defence only once.
 */
const hotOrigins = 4
const requestsOfHot = 248

/** Origins of so many requests. */
export const originsFor = (requests: number): number => hotOrigins * Math.ceil(requests / requestsOfHot)

/** A late surplus cannot be told from an answer of the same organization, so it has origins of its own. */
export const sendsLate = (origin: number): boolean => origin % hotOrigins === 0

type Draw = ReturnType<typeof drawDice>

function drawDice(seed: number, number: number) {
  const next = drawNumbers(Math.imul(seed, 0x9e3779b1) + number)
  const below = (limit: number): number => Math.floor(next() * limit)
  return {
    below,
    happens: (percent: number): boolean => next() * 100 < percent,
    pick: <Value>(values: readonly [Value, ...Value[]]): Value => values[below(values.length)] ?? values[0],
  }
}

export type Drawn = Readonly<{
  ask: Ask
  manners: Manners /** How many follow at once. */
  followers: number
  restMs: number
}>

/** The request of this number; the same seed draws the same one. */
export function drawAsk(
  seed: number,
  number: number,
  callers: readonly [Caller, ...Caller[]],
  places: readonly string[],
): Drawn {
  const draw = drawDice(seed, number)
  const { below, happens, pick } = draw
  const origin = (hotOrigins * Math.floor(number / requestsOfHot) + below(hotOrigins)) % places.length
  const hasUpload = happens(24)
  const method = hasUpload ? pick(['POST', 'PUT'] as const) : happens(5) ? 'HEAD' : 'GET'
  const plan = drawPlan(draw, method, hasUpload, sendsLate(origin))
  const upload = { bytes: happens(3) ? below(2_000_000) : below(happens(30) ? 100_000 : 2_000), isChunked: happens(40) }
  return {
    ask: { caller: pick(callers), number, place: places[origin] ?? '', method, plan, ...(hasUpload && { upload }) },
    manners: {
      ...(happens(10) && { cuts: drawCuts(draw, 1_500), gapMs: below(4) }),
      ...(happens(8) && { restMs: 1 + below(20) }),
      ...(happens(1) && { leavesAfter: below(60_000) }),
    },
    followers: happens(40) ? below(4) : 0,
    // A lull lets connections go from one organization to another.
    restMs: happens(10) ? below(60) : 0,
  }
}

const drawCuts = ({ below }: Draw, bytes: number): readonly number[] =>
  Array.from({ length: 1 + below(3) }, () => 1 + below(bytes)).sort((a, b) => a - b)

/** Bytes of answers with their heads, with which a read of the gateway ends. */
const wholeSizes = [16_384, 16_384, 32_768, 49_152, 65_536] as const

function drawPlan(draw: Draw, method: Ask['method'], hasUpload: boolean, isLate: boolean): AnswerPlan {
  const { below, happens, pick } = draw
  const status = happens(12) ? pick([204, 304] as const) : 200
  const framing = happens(5) ? 'close' : pick(['length', 'length', 'chunked'] as const)
  const isBodiless = status !== 200 || method === 'HEAD'
  const wholeBytes = !isBodiless && happens(25) ? pick(wholeSizes) : undefined
  const bytes = wholeBytes !== undefined ? wholeBytes - 700 : drawSize(draw)
  return {
    status,
    framing,
    bytes,
    ...(wholeBytes !== undefined && { wholeBytes }),
    ...(framing === 'chunked' && {
      chunkBytes: happens(10) ? 20 + below(300) : pick([bytes + 1, 1_000 + below(20_000), 4_096]),
    }),
    ...(happens(4) && { interimHeads: 1 + below(4) }),
    ...(happens(45) && { delayMs: 1 + below(6) }),
    ...(happens(15) && { cuts: drawCuts(draw, bytes + 300), gapMs: below(4) }),
    ...(hasUpload && happens(15) && { isEarly: true }),
    ...(happens(30) && { ignoresClose: true }),
    // An end tells no cut answer from a whole one where neither length nor chunks do.
    ...(framing !== 'close' && happens(1)
      ? { breaksAfter: below(bytes + 300) }
      : happens(2.5) && { surplus: drawSurplus(draw, isLate, isBodiless) }),
  }
}

function drawSize({ below, happens }: Draw): number {
  if (happens(70)) return below(2_000)
  return happens(96) ? below(40_000) : below(1_048_576)
}

function drawSurplus({ below, happens, pick }: Draw, isLate: boolean, isBodiless: boolean): Surplus {
  const usual = pick(['answer', 'answer', 'answer', 'fragment', 'crlf', 'body'] as const)
  const kind = isBodiless && happens(50) ? 'body' : usual
  return {
    kind,
    timing: isLate ? pick(['apart', 'late'] as const) : pick(['joined', 'joined', 'corked'] as const),
    bytes: happens(50) ? below(1_000) : below(60_000),
    ...(kind === 'fragment' && { from: below(400) }),
    ...(isLate && { lateMs: below(5) }),
  }
}
