import { request, type ServerResponse } from 'node:http'
import pg from 'pg'
import t from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream, startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startPdp } from '../support/pdp.ts'
import { oauth, startTestWorld } from '../support/world.ts'
import { untilHeard } from './until-heard.ts'

// An outside decision point answers over the network. Only its whole, literal yes permits; everything else that comes, or
// does not come, must refuse.

const world = await startTestWorld(t)
const { users, organizations } = world
const pdp = await startPdp(t)
const other = await startPdp(t)
const upstream = await startHttpUpstream(t)
const endless = await startHttpUpstream(t, (_, response) => void response.write('begun'))
const rawAnswer = (decision: boolean): string => {
  const body = JSON.stringify({ decision })
  return `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
}
let besideRefusal = ''
const raw = await startRawUpstream(t, (socket, soFar) => {
  if (soFar.endsWith('}')) socket.write(rawAnswer(false) + besideRefusal)
})
/** Answers with the id of the question, as AuthZEN says. Before a second answer it repeats the first. */
const late = await startRawUpstream(t, (socket, soFar) => {
  if (!soFar.endsWith('}')) return
  const ids = [...soFar.matchAll(/x-request-id: (\S+)/g)].map(([, id]) => `HTTP/1.1 200 OK\r\nx-request-id: ${id}\r\n`)
  const answerTo = (id: string | undefined, decision: boolean): string =>
    rawAnswer(decision).replace('HTTP/1.1 200 OK\r\n', id ?? '')
  if (ids.length === 1) socket.write(answerTo(ids[0], true))
  else socket.write(answerTo(ids[0], true), () => socket.write(answerTo(ids[1], false)))
})
const tardy = await startRawUpstream(t, () => undefined)
const writer = new pg.Client({ connectionString: world.databaseUrl })
await writer.connect()
t.teardown(() => writer.end())

let changes = 0

const change = (column: string) =>
  writer.query(`update users set ${column} = $1 where id = $2`, [`changed ${changes++}`, users.member.id])

const patientMs = 60_000

const decided = (id: string, decision: object | undefined, more: object = {}) => ({
  id,
  match: { path: `/${id}/:id` },
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member', ability: 'datasets:read' },
  decision,
  ...more,
})

const thing = { type: 'thing', param: 'id' }

const gateway = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url }, data: { url: endless.url } },
  settings: {
    streams: { onUnknown: 'end' },
    decisionPoints: {
      pdp: { url: `${pdp.url}/base`, deadlineMs: patientMs, cacheMs: 0, headers: { authorization: 'Bearer canary' } },
      held: { url: pdp.url, deadlineMs: patientMs, cacheMs: patientMs },
      brief: { url: pdp.url, cacheMs: 0 },
      shared: { url: pdp.url, deadlineMs: patientMs, cacheMs: 0, maxInFlight: 4, maxInFlightPerOrganization: 2 },
      open: { url: pdp.url, deadlineMs: patientMs, cacheMs: 0, recheckMs: 1_000 },
      patient: { url: pdp.url, deadlineMs: patientMs, cacheMs: 0, recheckMs: patientMs },
      other: { url: other.url, deadlineMs: patientMs, cacheMs: 0 },
      raw: { url: raw.url, deadlineMs: patientMs, cacheMs: 0 },
      late: { url: late.url, deadlineMs: patientMs, cacheMs: 0, maxInFlight: 1 },
      tardy: { url: tardy.url, cacheMs: 0, maxInFlight: 1 },
    },
  },
  routes: [
    decided('one', { pdp: 'pdp', resource: thing }),
    decided('held', { pdp: 'held', action: 'read', resource: thing }),
    decided('brief', { pdp: 'brief', resource: thing }),
    decided('shared', { pdp: 'shared', resource: thing }),
    decided('open', { pdp: 'open', resource: thing }, { upstream: 'data' }),
    decided('patient', { pdp: 'patient', resource: thing }, { upstream: 'data' }),
    { ...decided('plain', undefined), match: { path: '/area/:kind/:id' } },
    { ...decided('secret', { pdp: 'pdp', action: 'read', resource: thing }), match: { path: '/area/secret/:id' } },
    decided('raw', { pdp: 'raw', resource: thing }),
    decided('late', { pdp: 'late', resource: thing }),
    decided('tardy', { pdp: 'tardy', resource: thing }),
    decided('route', { pdp: 'pdp', action: 'enter' }),
    { id: 'me', match: { path: '/me' }, surface: 'platform', answer: 'users.me' },
  ],
})

const knock = async (path: string, user: { jwt: string } = users.member, headers: Record<string, string> = {}) => {
  const { status, text, json } = await call(gateway.public, { path, headers: { ...oauth(user), ...headers } })
  return status === 200 ? '200' : `${status} ${json().error?.code ?? text}`
}

let drawn = 0
const drawPath = (route: string): string => `/${route}/thing-${drawn++}`

t.beforeEach(() => {
  pdp.decide(() => true)
  pdp.headers({})
})

t.test('the question is of proven facts, and a yes permits', async (t) => {
  t.equal(await knock('/one/thing~1', users.member, { 'x-organization-id': String(organizations.acme.id) }), '200')
  const asked = pdp.asked.at(-1)
  t.equal(asked?.url, '/base/access/v1/evaluation')
  t.equal(asked?.headers.authorization, 'Bearer canary')
  t.same(JSON.parse(asked?.text ?? ''), {
    subject: {
      type: 'user',
      id: String(users.member.id),
      properties: {
        userType: 'human',
        credential: 'oauth',
        organizationId: String(organizations.acme.id),
        role: 'org-member',
      },
    },
    action: { name: 'datasets:read' },
    resource: { type: 'thing', id: 'thing~1' },
    context: {
      route: 'one',
      method: 'GET',
      organizationId: String(organizations.acme.id),
      organizationSlug: 'acme',
    },
  })
  t.equal(await knock('/route/anything'), '200')
  t.match(pdp.asked.at(-1)?.evaluations, [{ action: { name: 'enter' }, resource: { type: 'route', id: 'route' } }])
})

t.test('a no is 403 in the usual shape, and its context reaches no client', async (t) => {
  pdp.decide(() => false)
  const { status, text, json } = await call(gateway.public, { path: drawPath('one'), headers: oauth(users.member) })
  t.equal(status, 403)
  t.match(json(), { success: false, error: { status: 403, code: 'decision_refused', check: 'decision' } })
  t.notMatch(text, /canary/)
})

t.test('the decision point only narrows: it is asked last, and not about what the policy refuses', async (t) => {
  const before = pdp.asked.length
  t.equal(await knock('/one/x', users.client), '403 role_insufficient')
  const anonymous = await call(gateway.public, { path: '/one/x' })
  t.equal(anonymous.status, 401)
  t.equal(pdp.asked.length, before)
})

t.test('an id has one spelling, and any other is 404 without a question', async (t) => {
  const before = pdp.asked.length
  for (const id of ['a%20b', 'a%22b', 'a:b', 'a%0d', 'x'.repeat(129), 'thing%23reader', '%C3%A9'])
    t.match(await knock(`/one/${id}`), /^40[04] /, id)
  t.equal(pdp.asked.length, before)
  t.equal(await knock('/one/a%62'), '200')
  t.match(pdp.asked.at(-1)?.evaluations, [{ resource: { id: 'ab' } }])
})

const send =
  (head: Readonly<Record<string, string>>, body: string | Buffer, status = 200) =>
  (response: ServerResponse): void =>
    void response.writeHead(status, head).end(body)

const json = { 'content-type': 'application/json' }
const yes = '{"decision":true}'

t.test('only a literal yes in a plain answer permits', async (t) => {
  for (const [name, answer, expected] of [
    ['a yes', yes, '200'],
    ['a yes with context', '{"decision":true,"context":{"decision":false}}', '200'],
    ['a text', '{"decision":"true"}', '503'],
    ['a number', '{"decision":1}', '503'],
    ['a list', '{"decision":[true]}', '503'],
    ['null', '{"decision":null}', '503'],
    ['no decision', '{}', '503'],
    ['a decision elsewhere', '{"context":{"decision":true}}', '503'],
    ['a prototype', '{"__proto__":{"decision":true}}', '503'],
    ['another name', '{"Decision":true}', '503'],
    ['a list of answers', `[${yes}]`, '503'],
    ['a batch for one', `{"evaluations":[${yes}]}`, '503'],
    ['two decisions', '{"decision":false,"decision":true}', '503'],
    ['two decisions, the other way', '{"decision":true,"decision":false}', '503'],
    ['an escaped second decision', '{"decision":false,"decisio\\u006e":true}', '503'],
    ['garbage', '<html>', '503'],
    ['nothing', '', '503'],
    ['more after it', `${yes}${yes}`, '503'],
    ['a BOM', `\ufeff${yes}`, '503'],
    ['a page', send({ 'content-type': 'text/html' }, yes), '503'],
    ['no type', send({}, yes), '503'],
    ['a like type', send({ 'content-type': 'application/jsonp' }, yes), '503'],
    ['a type with a parameter', send({ 'content-type': 'application/json; charset=utf-8' }, yes), '200'],
    ['a content encoding', send({ ...json, 'content-encoding': 'gzip' }, yes), '503'],
    ['two content encodings', send({ ...json, 'content-encoding': 'identity, br' }, yes), '503'],
    ['no content encoding', send({ ...json, 'content-encoding': 'identity' }, yes), '200'],
    ['no UTF-8', send(json, Buffer.from('{"decision":true,"a":"\xff"}', 'latin1')), '503'],
    ['64 KiB', `{"decision":true,"context":"${'x'.repeat(64 * 1024 - 30)}"}`, '200'],
    ['over 64 KiB', `{"decision":true,"context":"${'x'.repeat(64 * 1024)}"}`, '503'],
    ['deep', `{"decision":true,"context":${'['.repeat(40)}${']'.repeat(40)}}`, '503'],
    ['201', send(json, yes, 201), '503'],
    ['204', send(json, '', 204), '503'],
    ['400', send(json, yes, 400), '503'],
    ['401', send(json, yes, 401), '503'],
    ['403', send(json, '{"decision":false}', 403), '503'],
    ['500', send(json, yes, 500), '503'],
    ['a redirect', send({ ...json, location: `${other.url}/access/v1/evaluation` }, yes, 307), '503'],
    [
      'a cut answer',
      (response: ServerResponse) =>
        void response.writeHead(200, { ...json, 'content-length': '99' }).write(yes, () => response.destroy()),
      '503',
    ],
    ['a broken connection', (response: ServerResponse) => void response.destroy(), '503'],
  ] as const) {
    pdp.decide(() => answer)
    const told = await knock(drawPath('one'))
    t.equal(told, expected === '200' ? '200' : '503 decision_unavailable', name)
  }
  t.same(other.asked, [], 'no redirect is followed')
})

t.test('no other spelling of a path or an id goes around the question', async (t) => {
  pdp.decide(() => false)
  const before = pdp.asked.length
  const arrived = upstream.ids().length
  for (const path of ['/area/SECRET/1', '/area/secret;a=b/1', '/area/%2573ecret/1'])
    t.equal(await knock(path), '400 target_misreadable', path)
  for (const path of ['/one/x?id=y', '/one/x?ID=y', '/one/x?a=b&id[]=y', '/one/x?id%00=y'])
    t.equal(await knock(path), '400 target_misreadable', path)
  t.equal(pdp.asked.length, before)
  t.equal(upstream.ids().length, arrived)
  t.equal(await knock('/area/secret/1'), '403 decision_refused')
  t.equal(await knock('/area/open/1'), '200')
  pdp.decide(() => true)
  t.equal(await knock('/one/x?idle=y'), '200')
  t.equal(await knock('/route/x?id=y'), '200', 'no parameter of its path is asked about')
})

t.test('an answer that was not asked for answers no later question', async (t) => {
  const ask = async (): Promise<unknown> => t.equal(await knock(drawPath('raw')), '403 decision_refused')
  for (let count = 0; count < 3; count++) await ask()
  const idle = [...raw.sockets()]
  for (const socket of idle) socket.write(rawAnswer(true).repeat(4))
  await until(() => idle.every(({ readableEnded, destroyed }) => readableEnded || destroyed), 'the end of these')
  for (let count = 0; count < 3; count++) await ask()
  besideRefusal = rawAnswer(true)
  for (let count = 0; count < 3; count++) await ask()
})

t.test('an answer that comes twice, behind the next question, does not answer that one', async (t) => {
  for (let count = 0; count < 3; count++) {
    t.equal(await knock(drawPath('late')), '200')
    t.equal(await knock(drawPath('late')), '503 decision_unavailable')
  }
  t.equal(late.sockets().length, 3, 'its connection is used no more')
})

t.test('an answer that comes after its deadline answers no later question, though it has no id', async (t) => {
  for (let count = 1; count <= 3; count++) {
    t.equal(await knock(drawPath('tardy'), count === 2 ? users.admin : users.member), '503 decision_unavailable')
    for (const socket of tardy.sockets()) if (socket.writable) socket.write(rawAnswer(true))
  }
})

/** Calls until a call is answered without a question: after a stall of a second the gateway rightly asks again. */
async function hold(path: string): Promise<void> {
  const isHeld = async (): Promise<boolean> => {
    const before = pdp.asked.length
    return (await knock(path)) === '200' && pdp.asked.length === before
  }
  await until(isHeld, 'a held answer')
}

t.test('an answer is held by all that was asked, for as long as both sides allow', async (t) => {
  /** How often it was asked, as far as it matters: after a stall of a second the gateway asks once more. */
  const ask = async (path: string, user = users.member): Promise<number> => {
    const before = pdp.asked.length
    t.equal(await knock(path, user), '200')
    return Math.min(1, pdp.asked.length - before)
  }
  const path = drawPath('held')
  t.equal(await ask(path), 1)
  await hold(path)
  t.equal(await ask(path, users.admin), 1, 'of another user')
  t.equal(await ask(drawPath('held')), 1, 'about another resource')
  for (const control of [
    'no-store',
    'no-cache',
    'max-age=0',
    'max-age=soon',
    'private, max-age=9, s-maxage=0',
    'max-age=5, max-age=0',
  ]) {
    pdp.headers({ 'cache-control': control })
    const unheld = drawPath('held')
    t.same([await ask(unheld), await ask(unheld)], [1, 1], control)
  }
  pdp.headers({ 'cache-control': 'max-age=60', age: '60' })
  const aged = drawPath('held')
  t.same([await ask(aged), await ask(aged)], [1, 1], 'an answer that is old already')
  pdp.headers({ expires: 'Thu, 01 Jan 1970 00:00:00 GMT' })
  const expired = drawPath('held')
  t.same([await ask(expired), await ask(expired)], [1, 1], 'an answer of old software')
})

t.test('a failure is never held', async (t) => {
  const path = drawPath('held')
  pdp.decide(() => '{"decision":"true"}')
  t.equal(await knock(path), '503 decision_unavailable')
  pdp.decide(() => true)
  t.equal(await knock(path), '200')
})

t.test('a change of the user makes the gateway ask again', async () => {
  const path = drawPath('held')
  await hold(path)
  pdp.decide(() => false)
  await change('first_name')
  await until(async () => (await knock(path)) === '403 decision_refused', 'the answer after the change')
})

t.test('an answer that was on its way when a change came is not held', async (t) => {
  const path = drawPath('held')
  let answer: (() => void) | undefined
  pdp.decide(() => (response) => {
    answer = () => void response.writeHead(200, json).end(yes)
  })
  const first = knock(path)
  await until(() => answer !== undefined, 'the question')
  await change('last_name')
  await untilHeard(gateway.admin)
  pdp.decide(() => false)
  const second = knock(path)
  await until(
    () => pdp.asked.filter(({ evaluations }) => evaluations[0]?.resource.id === path.split('/')[2]).length === 2,
    'a question of its own',
  )
  answer?.()
  t.equal(await first, '403 decision_refused', 'it is asked about again before its first byte')
  t.equal(await second, '403 decision_refused')
  t.equal(await knock(path), '403 decision_refused')
})

t.test('a request whose facts changed on its way waits for a yes about the new ones', async (t) => {
  const path = drawPath('one')
  let answer: (() => void) | undefined
  pdp.decide(() => (response) => {
    answer = () => void response.writeHead(200, json).end(yes)
  })
  const first = knock(path)
  await until(() => answer !== undefined, 'the question')
  await change('last_name')
  await untilHeard(gateway.admin)
  const arrived = upstream.ids().length
  pdp.decide(() => '{"decision":"true"}')
  answer?.()
  t.equal(await first, '503 decision_unavailable')
  t.equal(upstream.ids().length, arrived, 'nothing reached the backend')
})

t.test(
  'a request whose facts change twice on its way waits for an answer about facts from after its arrival',
  async (t) => {
    const path = drawPath('one')
    const answers: ((isYes: boolean) => void)[] = []
    pdp.decide(() => (response) => {
      answers.push((decision) => void response.writeHead(200, json).end(JSON.stringify({ decision })))
    })
    const arrived = upstream.ids().length
    const first = knock(path)
    await until(() => answers.length === 1, 'the question')
    await change('last_name')
    const isHeard = async (): Promise<boolean> =>
      (await call(gateway.public, { path: '/me', headers: oauth(users.member) })).text.includes(
        `changed ${changes - 1}`,
      )
    await until(isHeard, 'the change')
    await untilHeard(gateway.admin)
    answers[0]?.(true)
    await until(() => answers.length >= 2, 'the question about the new facts')
    const { length } = answers
    await change('last_name')
    await until(() => answers.length > length, 'the question about the newest facts')
    t.equal(upstream.ids().length, arrived, 'nothing reached the backend')
    // The queue judges by the newest facts within the second. A request that waited for them would wait without end.
    for (const answer of answers.slice(1)) answer(true)
    t.equal(await first, '200')
  },
)

t.test('equal questions at a time are one', async (t) => {
  const path = drawPath('held')
  const before = pdp.asked.length
  const told = await Promise.all(Array.from({ length: 20 }, () => knock(path)))
  t.same(new Set(told), new Set(['200']))
  t.equal(pdp.asked.length - before, 1)
})

t.test('the decision listener asks the decision point too', async (t) => {
  const ask = (path: string) =>
    call(gateway.decision, {
      path: '/authorize',
      headers: { ...oauth(users.member), 'x-original-method': 'GET', 'x-original-uri': path, 'x-forwarded-host': 'h' },
    })
  t.equal((await ask(drawPath('one'))).status, 200)
  pdp.decide(() => false)
  t.equal((await ask(drawPath('one'))).status, 403)
  pdp.decide(() => '')
  t.equal((await ask(drawPath('one'))).status, 503)
})

t.test(
  'a decision point that is killed, frozen, slow or garbled under load permits nothing, and is used again by itself',
  async (t) => {
    const freeze = (): void => undefined
    const load = async (): Promise<readonly string[]> => {
      const told: string[] = []
      const client = async (): Promise<void> => {
        for (let count = 0; count < 8; count++) told.push(await knock(drawPath('brief')))
      }
      await Promise.all(Array.from({ length: 8 }, client))
      return told
    }
    const faults: readonly (readonly [string, () => Promise<unknown>, () => Promise<unknown>])[] = [
      ['killed', () => pdp.stop(), () => pdp.start()],
      ['frozen', async () => pdp.decide(() => freeze), async () => pdp.decide(() => true)],
      [
        'frozen in the body',
        async () => pdp.decide(() => (response) => void response.writeHead(200, json).write('{"decision":')),
        async () => pdp.decide(() => true),
      ],
      ['garbled', async () => pdp.decide(() => '{"decision":tru'), async () => pdp.decide(() => true)],
      ['failing', async () => pdp.decide(() => send(json, yes, 503)), async () => pdp.decide(() => true)],
    ]
    for (const [name, spoil, mend] of faults) {
      await until(async () => (await knock(drawPath('brief'))) === '200', 'a permit before')
      await spoil()
      const arrived = upstream.ids().length
      const told = await load()
      t.same(new Set(told), new Set(['503 decision_unavailable']), name)
      t.equal(upstream.ids().length, arrived, `${name}: nothing reached the backend`)
      await mend()
      await until(async () => (await knock(drawPath('brief'))) === '200', `${name}: a permit by itself`)
    }
  },
)

t.test('an organization whose questions fail or hang takes neither the room nor the circuit of another', async (t) => {
  const { acme, globex } = organizations
  const inAcme = { 'x-organization-id': String(acme.id) }
  const frozen: ServerResponse[] = []
  const isOther = ({ subject }: Parameters<Parameters<typeof pdp.decide>[0]>[0]): boolean =>
    subject.properties.organizationId === String(globex.id)
  pdp.decide((evaluation) => isOther(evaluation) || ((response) => void frozen.push(response)))
  const held = Array.from({ length: 40 }, () => knock(drawPath('shared'), users.member, inAcme))
  await until(() => pdp.open.now === 2, 'the share of the organization')
  for (let count = 0; count < 10; count++) t.equal(await knock(drawPath('shared'), users.outsider), '200')
  t.equal(pdp.open.now, 2)
  pdp.decide((evaluation) => isOther(evaluation) || send(json, '{}', 500))
  for (const response of frozen) send(json, '{}', 500)(response)
  t.same(new Set(await Promise.all(held)), new Set(['503 decision_unavailable']))
  const before = pdp.asked.length
  const told = await Promise.all(Array.from({ length: 9 }, () => knock(drawPath('shared'), users.member, inAcme)))
  t.same(new Set(told), new Set(['503 decision_unavailable']))
  t.ok(pdp.asked.length - before <= 1, 'its circuit is open, and asks once a second')
  t.equal(await knock(drawPath('shared'), users.outsider), '200')
})

t.test('refusals of the questions themselves open no circuit', async (t) => {
  pdp.decide(() => send(json, '{}', 422))
  for (let count = 0; count < 10; count++) t.equal(await knock(drawPath('one')), '503 decision_unavailable')
  pdp.decide(() => true)
  t.equal(await knock(drawPath('one')), '200')
})

/** An exchange that its backend never ends; resolves with true once it was broken off. */
function openEndless(path: string): Promise<Readonly<{ broken: Promise<boolean> }>> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, gateway.public)
    const asked = request(url, { headers: oauth(users.member), agent: false }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`refused with ${response.statusCode}`))
      const broken = new Promise<boolean>((end) => {
        response.on('error', () => end(true))
        response.on('end', () => end(false))
      })
      response.on('data', () => resolve({ broken }))
    })
    asked.on('error', reject)
    asked.end()
  })
}

t.test('an open exchange is asked about again, and ends with the yes', async (t) => {
  const path = drawPath('open')
  const { broken } = await openEndless(path)
  const countAsked = (): number =>
    pdp.asked.filter(({ evaluations }) => evaluations[0]?.resource.id === path.split('/')[2]).length
  await until(() => countAsked() > 2, 'further questions')
  pdp.decide(() => false)
  t.equal(await broken, true)
})

t.test('an open exchange whose facts were read again is asked about as before', async (t) => {
  const path = drawPath('open')
  const { broken } = await openEndless(path)
  const countAsked = (): number =>
    pdp.asked.filter(({ evaluations }) => evaluations[0]?.resource.id === path.split('/')[2]).length
  await until(() => countAsked() > 1, 'a further question')
  await writer.query(`notify sallyport_changes, '{"kind":"everything"}'`)
  const before = countAsked()
  await until(() => countAsked() > before + 1, 'two questions after the change')
  pdp.decide(() => false)
  t.equal(await broken, true)
})

t.test('an open exchange ends where its decision point stays silent', async (t) => {
  const { broken } = await openEndless(drawPath('open'))
  pdp.decide(() => '{"decision":"true"}')
  t.equal(await broken, true)
})

t.test('a change ends an open exchange that the decision point refuses since', async (t) => {
  const { broken } = await openEndless(drawPath('patient'))
  pdp.decide(() => false)
  await change('first_name')
  t.equal(await broken, true)
})
