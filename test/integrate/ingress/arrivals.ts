import type { Test } from 'tap'
import type { Answer, Call } from '../../support/client.ts'
import type { RecordedRequest } from '../../support/world.ts'
import type { IngressFixture } from './fixture.ts'
import type { Manners } from './scenes.ts'

/** Sends a request both ways; the answer and what the backend got have to be the same. */
export async function testSameArrival(
  t: Test,
  fixture: IngressFixture,
  { adds, forwards }: Manners,
  call: Call,
): Promise<void> {
  const request = { ...call, headers: { 'x-request-id': 'scene-1', ...call.headers } }
  const alone = await fixture.alone.ask(request)
  const heardBefore = fixture.heardByPublic().length
  const front = await fixture.front.ask(request)
  const isAskedOnly = fixture.heardByPublic().length === heardBefore
  t.equal(isAskedOnly, forwards === 'itself', `the request is forwarded ${forwards}`)
  t.equal(alone.answer.status, 200, 'proxy mode allows it')
  t.equal(front.answer.status, 200, front.answer.text)
  t.same([alone.arrivals.length, front.arrivals.length], [1, 1])
  const [measure] = alone.arrivals
  const [arrival] = front.arrivals
  if (measure === undefined || arrival === undefined) return
  t.equal(arrival.requestLine, measure.requestLine)
  t.equal(arrival.bodySha256, measure.bodySha256)
  t.same(factsOf(arrival), factsOf(measure))
  const known = new Set([...namesOf(measure), ...connectionHeaders, ...adds])
  t.same(
    namesOf(arrival).filter((name) => !known.has(name)),
    [],
    'nothing else arrives',
  )
  // Bound to method and target: what was judged is what has arrived.
  const identify = (way: 'front' | 'alone', found: RecordedRequest) =>
    valuesOf(found, identityHeader).length === 0 ? 'nobody' : fixture[way].verify(found)
  t.same(await identify('front', arrival), await identify('alone', measure), 'the same identity')
}

export const identityHeader = 'x-gateway-identity'

/** Each hop's own business. */
const connectionHeaders = ['host', 'connection', 'content-length', 'transfer-encoding', 'via']

/** Headers whose values have to be those of proxy mode. */
const telling = [
  'accept',
  'accept-language',
  'content-type',
  'user-agent',
  'cookie',
  'idempotency-key',
  'traceparent',
  'x-request-id',
  'x-organization-id',
  'x-forwarded-proto',
  'authorization',
  'x-oauth-access-token',
] as const

const factsOf = (arrival: RecordedRequest) => ({
  ...Object.fromEntries(telling.map((name) => [name, valuesOf(arrival, name)])),
  client: clientOf(arrival),
  identities: valuesOf(arrival, identityHeader).length,
})

/** Proxies between add themselves at the end. */
const clientOf = (arrival: RecordedRequest): string => valuesOf(arrival, 'x-forwarded-for')[0]?.split(',')[0] ?? ''

export const namesOf = ({ headers }: RecordedRequest): readonly string[] => headers.map(([name]) => name.toLowerCase())

export const valuesOf = ({ headers }: RecordedRequest, name: string): readonly string[] =>
  headers.flatMap(([found, value]) => (found.toLowerCase() === name ? [value] : []))

/** The part of a refusal that comes from the gateway. */
export const refusalOf = ({ status, text, headers }: Answer) => ({
  status,
  text,
  'content-type': headers['content-type'],
  'www-authenticate': headers['www-authenticate'],
  allow: headers.allow,
  'x-request-id': headers['x-request-id'],
})
