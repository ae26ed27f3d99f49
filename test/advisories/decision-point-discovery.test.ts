import type { ServerResponse } from 'node:http'
import t from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startPdp } from '../support/pdp.ts'
import { oauth, startTestWorld } from '../support/world.ts'

// Metadata say where a decision point answers. They must never lead the gateway, its questions or its credentials to another
// server; metadata that do not count permit nothing.

const world = await startTestWorld(t)
const { member } = world.users
const pdp = await startPdp(t)
const other = await startPdp(t)
const upstream = await startHttpUpstream(t)

type Describe = (url: string) => object | string | Buffer | ((response: ServerResponse) => void)

const json = { 'content-type': 'application/json' }

const send =
  (head: Readonly<Record<string, string>>, body: string, status = 200) =>
  (response: ServerResponse): void =>
    void response.writeHead(status, head).end(body)

const plain = (url: string, more: object = {}) => ({
  policy_decision_point: url,
  access_evaluation_endpoint: `${url}/ask`,
  access_evaluations_endpoint: `${url}/ask-more`,
  ...more,
})

const text = (url: string, more: object = {}): string => JSON.stringify(plain(url, more))

/** Metadata with another endpoint for single questions. */
const at =
  (describe: (url: string) => unknown): Describe =>
  (url) =>
    plain(url, { access_evaluation_endpoint: describe(url) })

const named =
  (describe: (url: string) => unknown): Describe =>
  (url) =>
    plain(url, { policy_decision_point: describe(url) })

const { origin } = new URL(pdp.url)

const refused: Readonly<Record<string, Describe>> = {
  'another server': at(() => `${other.url}/access/v1/evaluation`),
  'another server for batches': (url) => plain(url, { access_evaluations_endpoint: `${other.url}/x` }),
  'another scheme': at((url) => `${url.replace('http:', 'https:')}/ask`),
  'another port that begins alike': at(() => `${origin}0/ask`),
  'a user': at(() => `${origin}@${new URL(other.url).host}/ask`),
  'a user of the origin': at((url) => `${url.replace('//', '//a:b@')}/ask`),
  'an address without a scheme': at(() => `//${new URL(other.url).host}/ask`),
  'a path': at(() => '/ask'),
  'a backslash': at(() => `${origin}\\@${new URL(other.url).host}/ask`),
  'a backslash in the path': at(() => `${origin}/\\${new URL(other.url).host}/ask`),
  'two slashes': at(() => `${origin}//ask`),
  'a dot segment': at((url) => `${url}/../ask`),
  'a hidden dot segment': at((url) => `${url}/%2e%2e/ask`),
  'a tab': at((url) => `${url}/as\tk`),
  'a line': at((url) => `${url}/ask HTTP/1.1\r\nx: y`),
  'a query': at((url) => `${url}/ask?to=x`),
  'a fragment': at((url) => `${url}/ask#x`),
  'no path': at(() => origin),
  'a number': at(() => 7),
  'a list': at((url) => [`${url}/ask`]),
  null: at(() => null),
  'no endpoint': (url) => ({ policy_decision_point: url }),
  'another name': named(() => other.url),
  'no name': named(() => undefined),
  'a name with a slash': named((url) => `${url}/`),
  'a name in capitals': named((url) => url.replace('http', 'HTTP')),
  'a list of names': named((url) => [url]),
  'two names': (url) => `{"policy_decision_point":"${other.url}",${text(url).slice(1)}`,
  'an escaped second endpoint': (url) => `{"access_evaluation_endpoin\\u0074":"${other.url}/x",${text(url).slice(1)}`,
  'names of a prototype': (url) => `{"__proto__":${text(url)}}`,
  'a list of documents': (url) => `[${text(url)}]`,
  nothing: () => '',
  'a cut document': (url) => text(url).slice(0, -1),
  'more after it': (url) => `${text(url)}{}`,
  'a BOM': (url) => `\ufeff${text(url)}`,
  'no UTF-8': (url) => Buffer.from(text(url, { x: '\xff' }), 'latin1'),
  'over 64 KiB': (url) => plain(url, { x: 'x'.repeat(64 * 1024) }),
  deep: (url) => `{"x":${'['.repeat(40)}${']'.repeat(40)},${text(url).slice(1)}`,
  'a page': (url) => send({ 'content-type': 'text/html' }, text(url)),
  'no type': (url) => send({}, text(url)),
  '203': (url) => send(json, text(url), 203),
  '404': (url) => send(json, text(url), 404),
  '500': (url) => send(json, text(url), 500),
  'a redirect': (url) => send({ ...json, location: `${other.url}${new URL(url).pathname}` }, text(url), 302),
  'a broken connection': () => (response) => void response.destroy(),
}

const held: Readonly<Record<string, Describe>> = {
  'no answer': () => () => undefined,
  'half an answer': () => (response) => void response.writeHead(200, json).write('{"policy'),
}

const taken: Readonly<Record<string, Describe>> = {
  'plain metadata': plain,
  'more members': (url) =>
    plain(url, { capabilities: ['x'], signed_metadata: 'x', search_subject_endpoint: other.url }),
  'no batches': (url) => plain(url, { access_evaluations_endpoint: undefined }),
}

const cases = Object.entries({ ...refused, ...held, ...taken }).map(([name, describe], index) => ({
  name,
  describe,
  pdp: `case-${index}`,
  url: `${origin}/base/case-${index}`,
}))
const caseOf = (name: string) => cases.find((one) => one.name === name) ?? cases[0]
const later = { pdp: 'later', url: `${origin}/later` }

const route = (name: string, require: object, more: object) => ({
  id: name,
  match: { path: `/${name}/:id` },
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member', ...require },
  ...more,
})

let isLate = true

function answer(url: string, response: ServerResponse): void {
  const own = cases.find(({ pdp }) => url === `/.well-known/authzen-configuration/base/${pdp}`)
  const isLater = url === '/.well-known/authzen-configuration/later'
  const said = own ? own.describe(own.url) : isLater && !isLate ? plain(later.url) : send({}, '', 404)
  if (typeof said === 'function') said(response)
  else
    response.writeHead(200, json).end(typeof said === 'string' || Buffer.isBuffer(said) ? said : JSON.stringify(said))
}

pdp.describe(answer)
other.describe((_, response) => void response.writeHead(200, json).end(text(other.url)))

const patientMs = 60_000
const decision = (pdp: string) => ({ pdp, action: 'read', resource: { type: 'thing', param: 'id' } })

const gateway = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url } },
  settings: {
    decisionPoints: Object.fromEntries(
      [...cases, later].map(({ pdp: name, url }) => {
        const isHeld = cases.some((one) => one.pdp === name && one.name in held)
        const headers = { authorization: 'Bearer canary' }
        return [name, { url, discover: true, headers, cacheMs: 0, ...(!isHeld && { deadlineMs: patientMs }) }]
      }),
    ),
  },
  routes: [...cases, later].map(({ pdp }) => route(pdp, {}, { decision: decision(pdp) })),
})

const knock = async (path: string) => {
  const { status, text, json } = await call(gateway.public, { path, headers: oauth(member) })
  return status === 200 ? '200' : `${status} ${json().error?.code ?? text}`
}

t.test('metadata that the gateway refuses permit nothing, and lead to no other server', async (t) => {
  for (const { name, pdp: id } of cases.filter(({ name }) => name in refused || name in held))
    t.equal(await knock(`/${id}/x`), '503 decision_unavailable', name)
  t.same(pdp.asked, [], 'no question was sent')
  t.same(other.asked, [], 'nor to another server')
  t.same(upstream.ids(), [], 'nothing reached the backend')
})

t.test('the endpoints of the metadata are asked', async (t) => {
  for (const { name, pdp: id } of cases.filter(({ name }) => name in taken)) {
    t.equal(await knock(`/${id}/x`), '200', name)
    t.match(pdp.asked.at(-1), { url: `/base/${id}/ask`, headers: { authorization: 'Bearer canary' } })
  }
  pdp.decide(() => false)
  t.equal(await knock(`/${caseOf('plain metadata')?.pdp}/x`), '403 decision_refused')
  pdp.decide(() => true)
})

t.test('a decision point whose metadata come later is asked without a restart', async (t) => {
  t.equal(await knock('/later/x'), '503 decision_unavailable')
  isLate = false
  await until(async () => (await knock('/later/x')) === '200', 'a permit')
  t.equal(pdp.asked.at(-1)?.url, '/later/ask')
})
