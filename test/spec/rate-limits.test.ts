import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { type Answer, type Call, call } from '../support/client.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { populate } from '../support/population.ts'
import { startRedis, testRedis, testRedisServer } from '../support/redis.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { startServing } from '../support/serve.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { owner, admin, member, outsider } = world.users
const { robot } = world.serviceAccounts
const { acme, globex } = world.organizations

const surfaces = ['platform', 'files', 'data', 'model', 'graphql'] as const

/** Longer than any test. */
const hour = { seconds: 3_600 }

const rateLimits = {
  user: { requests: 3, ...hour },
  team: { requests: 3, ...hour, by: 'organization' },
  whole: { requests: 3, ...hour, by: 'route' },
  place: { requests: 3, ...hour, by: 'address' },
  brief: { requests: 1, seconds: 1 },
  strict: { requests: 3, ...hour, onError: 'deny' },
}

const open = (name: string) => ({
  id: `open.${name}`,
  match: { path: `/open/${name}` },
  surface: 'platform',
  access: 'public',
  upstream: 'platform',
})

const routes = [
  ...Object.keys(rateLimits).flatMap((name) => {
    const row = { surface: 'platform', upstream: 'platform', rateLimit: name, require: { role: 'org-member' } }
    return ['', '2'].map((more) => ({ id: name + more, match: { path: `/${name}${more}` }, ...row }))
  }),
  ...surfaces.map((surface) => ({
    id: surface,
    match: { path: `/on/${surface}` },
    surface,
    upstream: 'platform',
    rateLimit: 'whole',
  })),
  { ...open('whole'), rateLimit: 'whole' },
  { ...open('place'), rateLimit: 'place' },
  open('free'),
  { id: 'users.me', match: { path: '/users/me' }, surface: 'platform', answer: 'users.me', rateLimit: 'user' },
]

type Settings = Readonly<Record<string, unknown>>

async function start(t: Test, settings: Settings = {}) {
  const upstream = await startHttpUpstream(t, (request, response) => {
    const said = request.headers['x-say']
    if (typeof said === 'string') response.setHeader('RateLimit', said)
    request.resume().on('end', () => response.end('ok'))
  })
  const upstreams = { platform: { url: upstream.url } }
  const gateway = await startTestGateway(t, { world, routes, rateLimits, upstreams, settings })
  const send = (wanted: Call): Promise<Answer> => call(gateway.public, wanted)
  const statuses = async (wanted: Call, times: number): Promise<readonly number[]> => {
    const answers: number[] = []
    for (let time = 0; time < times; time += 1) answers.push((await send(wanted)).status)
    return answers
  }
  const metrics = async (): Promise<string> => (await call(gateway.admin, { path: '/metrics' })).text
  return { gateway, upstream, send, statuses, metrics }
}

const get = (path: string, headers: Call['headers'] = {}): Call => ({ path, headers })

t.test(
  'as many requests as the budget pass, one more is 429 and reaches no backend; answers tell what is left',
  async (t) => {
    const { upstream, send, metrics } = await start(t)
    for (const left of [2, 1, 0]) {
      const { status, headers } = await send(get('/user', oauth(member)))
      t.equal(status, 200)
      t.equal(headers['ratelimit-policy'], '"user";q=3;w=3600')
      t.match(headers.ratelimit, new RegExp(`^"user";r=${left};t=(3600|3[0-5]\\d\\d)$`))
      t.equal(headers['retry-after'], undefined)
    }
    const refused = await send(get('/user', { ...oauth(member), 'x-request-id': 'late' }))
    t.equal(refused.status, 429)
    t.match(refused.headers, { 'ratelimit-policy': '"user";q=3;w=3600', ratelimit: /^"user";r=0;t=3\d\d\d$/ })
    t.match(refused.headers['retry-after'], /^3[0-6]\d\d$/)
    t.equal(upstream.ids().length, 3)
    t.notOk(upstream.ids().includes('late'))
    t.match(await metrics(), 'sallyport_rate_limited_total{route="user",limit="user"} 1')
  },
)

t.test('a limit by principal is one budget a user, on every route that names it', async (t) => {
  const { statuses } = await start(t)
  t.same(await statuses(get('/user', oauth(member)), 2), [200, 200])
  t.same(await statuses(get('/user2', oauth(member)), 2), [200, 429])
  t.same(await statuses(get('/user', oauth(admin)), 4), [200, 200, 200, 429])
  t.same(await statuses(get('/user', bearer(robot.apiKey)), 2), [200, 200])
  t.same(await statuses(get('/user', bearer(robot.apiSecret)), 2), [200, 429], 'another credential of the same user')
  t.same(await statuses(get('/users/me', oauth(owner)), 4), [200, 200, 200, 429], 'endpoints of the gateway too')
})

t.test('a limit by organization is one budget for all users of the organization in force', async (t) => {
  const { statuses } = await start(t)
  const inGlobex = { ...oauth(owner), 'x-organization-id': String(globex.id) }
  t.same(await statuses(get('/team', oauth(member)), 2), [200, 200])
  t.same(await statuses(get('/team', { ...oauth(owner), 'x-organization-id': String(acme.id) }), 2), [200, 429])
  t.same(await statuses(get('/team', inGlobex), 1), [200])
  t.same(await statuses(get('/team', oauth(outsider)), 3), [200, 200, 429])
})

t.test('a limit by route counts all callers together, for each route alone, public ones too', async (t) => {
  const { statuses } = await start(t)
  t.same(await statuses(get('/whole', oauth(member)), 2), [200, 200])
  t.same(await statuses(get('/whole', oauth(admin)), 2), [200, 429])
  t.same(await statuses(get('/whole2', oauth(admin)), 1), [200])
  t.same(await statuses(get('/open/whole'), 4), [200, 200, 200, 429])
})

t.test('a limit by address counts with or without a credential, and before a credential is looked at', async (t) => {
  const { statuses, send } = await start(t)
  t.same(await statuses(get('/place', bearer('oat_guess')), 3), [401, 401, 401])
  t.same(await statuses(get('/place', oauth(member)), 1), [429])
  t.same(await statuses(get('/open/place'), 1), [429], 'on every route that names the limit')
  t.equal((await send({ ...get('/place', oauth(member)), localAddress: '127.0.0.2' })).status, 200)
  const refused = await send({ ...get('/place'), localAddress: '127.0.0.2' })
  t.match(refused, { status: 401, headers: { ratelimit: /^"place";r=1;/ } })
})

t.test('a limit by address counts the address behind trusted proxies', async (t) => {
  const { statuses } = await start(t, { trustedProxies: ['127.0.0.0/8'] })
  const from = (address: string) => get('/open/place', { 'x-forwarded-for': address })
  t.same(await statuses(from('2001:db8:1:2::3'), 2), [200, 200])
  t.same(await statuses(from('2001:db8:1:2:ffff::4'), 2), [200, 429], 'the same /64')
  t.same(await statuses(from('2001:db8:1:3::3'), 1), [200])
})

t.test('a request that is refused anyway uses no budget', async (t) => {
  const { statuses } = await start(t)
  const foreign = { ...oauth(outsider), 'x-organization-id': String(acme.id) }
  for (const path of ['/user', '/team', '/whole']) {
    t.same(await statuses(get(path), 3), [401, 401, 401])
    t.same(await statuses(get(path, foreign), 3), [401, 401, 401])
    t.same(await statuses(get(path, oauth(world.users.client)), 4), [403, 403, 403, 403])
    t.same(await statuses(get(path, oauth(member)), 4), [200, 200, 200, 429], path)
  }
})

t.test('429 has the shape of its surface', async (t) => {
  const { send, statuses } = await start(t)
  const envelope = { success: false, message: String, error: { status: 429, code: 'rate_limited', requestId: String } }
  const shapes: Readonly<Record<(typeof surfaces)[number], object>> = {
    platform: envelope,
    files: envelope,
    data: { detail: String },
    model: { error: { message: String, type: 'rate_limit_error', code: 'rate_limited' } },
    graphql: { data: null, errors: [{ extensions: { code: 'TOO_MANY_REQUESTS', status: 429 } }] },
  }
  for (const surface of surfaces) {
    const wanted = get(`/on/${surface}`, oauth(member))
    t.same(await statuses(wanted, 3), [200, 200, 200])
    const { status, headers, json } = await send(wanted)
    t.equal(status, 429)
    t.match(json(), shapes[surface], surface)
    t.match(headers['retry-after'], /^\d+$/)
  }
})

t.test('routes without a limit say nothing of any; an upstream’s own lines stay', async (t) => {
  const { send } = await start(t)
  const free = await send(get('/open/free', { 'x-say': '"theirs";r=5' }))
  t.match(free, { status: 200, headers: { ratelimit: '"theirs";r=5', 'ratelimit-policy': undefined } })
  const limited = await send(get('/user', { ...oauth(member), 'x-say': '"theirs";r=5' }))
  t.match(limited.headers.ratelimit, /^"theirs";r=5, "user";r=2;t=\d+$/)
})

t.test('pages of other origins may read the headers of a rate limit', async (t) => {
  const { send } = await start(t, { cors: { origins: ['https://app.example'] } })
  const { headers } = await send(get('/user', { ...oauth(member), origin: 'https://app.example' }))
  t.match(headers['access-control-expose-headers'], /\bratelimit, ratelimit-policy\b/)
  t.ok(headers.ratelimit)
})

t.test('the next window brings the next budget', async (t) => {
  const { send } = await start(t)
  const status = async (): Promise<number> => (await send(get('/brief', oauth(member)))).status
  t.equal(await status(), 200)
  await until(async () => (await status()) === 429, 'the end of the budget')
  await until(async () => (await status()) === 200, 'the next window')
})

t.test('the decision listener spends of the same budgets, and answers 429 alike', async (t) => {
  const { gateway, statuses } = await start(t)
  const ask = (target: string, endpoint = '/authorize') =>
    call(gateway.decision, {
      path: endpoint,
      headers: { 'x-original-method': 'GET', 'x-original-uri': target, ...oauth(member) },
    })
  t.same(await statuses(get('/user', oauth(member)), 2), [200, 200])
  t.match(await ask('/user'), { status: 200, headers: { ratelimit: /^"user";r=0;/ } })
  const refused = await ask('/user')
  t.match(refused, { status: 429, headers: { 'retry-after': /^\d+$/, ratelimit: /^"user";r=0;/ } })
  t.match(refused.json(), { success: false, error: { status: 429, code: 'rate_limited' } })
  t.match(await ask('/user', '/authorize?statuses=nginx'), { status: 403, headers: { 'x-gateway-status': '429' } })
})

t.test('a request at both listeners is counted once', async (t) => {
  const { gateway, statuses } = await start(t)
  for (let time = 0; time < 5; time += 1) {
    const headers = { 'x-original-method': 'GET', 'x-original-uri': '/users/me', ...oauth(admin) }
    t.equal((await call(gateway.decision, { path: '/authorize', headers })).status, 200)
  }
  t.same(await statuses(get('/users/me', oauth(admin)), 4), [200, 200, 200, 429])
})

t.test('a reload changes limits, and forgets no count', async (t) => {
  const { gateway, statuses } = await start(t)
  t.same(await statuses(get('/user', oauth(member)), 3), [200, 200, 200])
  const folder = join(dirname(gateway.keyFile), 'policies')
  mkdirSync(folder, { recursive: true })
  const changed = { ...rateLimits, user: { requests: 5, ...hour } }
  writeFileSync(join(folder, '.new'), JSON.stringify({ rateLimits: changed, routes: [...routes, open('new')] }))
  renameSync(join(folder, '.new'), join(folder, 'routes.yaml'))
  await until(async () => (await statuses(get('/open/new'), 1))[0] === 200, 'the new table')
  t.same(await statuses(get('/user', oauth(member)), 3), [200, 200, 429])
})

testRedis(t, 'two gateways with one Redis let exactly as many pass as one', async (t) => {
  const redis = await startRedis(t)
  const reader = new Redis(redis.url)
  t.teardown(() => reader.disconnect())
  // A shared Redis may hold counts of an earlier run.
  const stored = (): Promise<string[]> => reader.keys('sallyport:rate:*')
  for (const key of await stored()) await reader.del(key)
  const gateways = [await start(t, { redis: { url: redis.url } }), await start(t, { redis: { url: redis.url } })]
  for (const { send } of gateways)
    await until(async () => (await send(get('/brief', oauth(owner)))).headers.ratelimit, 'Redis')
  const { addAccount } = await populate(t, world)
  /** Its answers, of which each tells what is left. */
  const ask = async (attempt: number) => {
    const { id, headers } = await addAccount(`counted-${attempt}`)
    const sent = Array.from({ length: 60 }, (_, index) => gateways[index % 2]?.send(get('/user', headers)))
    const answers = await Promise.all(sent)
    return { id, answers, isCounted: answers.every((answer) => answer?.headers.ratelimit !== undefined) }
  }
  let round = await ask(0)
  // A machine that keeps Redis waiting for a fifth of a second lets a request pass uncounted.
  for (let attempt = 1; attempt < 20 && !round.isCounted; attempt += 1) round = await ask(attempt)
  t.equal(round.answers.filter((answer) => answer?.status === 200).length, 3)
  t.equal(round.answers.filter((answer) => answer?.status === 429).length, 57)
  await gateways[0]?.send(get('/open/place'))
  await gateways[0]?.send(get('/team', oauth(member)))
  const keys = await stored()
  const user = `sallyport:rate:user:3600:user:${round.id}`
  t.match(keys.filter((key) => key === user || !/:(?:brief|user):/.test(key)).sort(), [
    /^sallyport:rate:place:3600:address:[\w-]{22}$/,
    `sallyport:rate:team:3600:organization:${acme.id}`,
    user,
  ])
  // -1: the key stays. -2: it went away by itself since, as keys of a limit of one second do.
  for (const key of keys) t.not(await reader.pttl(key), -1, `${key} goes away by itself`)
  t.same(await reader.get(user), '60', 'counts, and nothing else')
})

testRedisServer(t, 'while Redis is down, open limits pass and closed ones are 503', async (t) => {
  const redis = await startRedisServer(t)
  const { send, statuses, metrics } = await start(t, { redis: { url: redis.url } })
  const counted = async (): Promise<unknown> => (await send(get('/brief', oauth(owner)))).headers.ratelimit
  const strict = async (): Promise<number> => (await send(get('/strict', oauth(member)))).status
  await until(counted, 'Redis')
  await until(async () => (await strict()) === 200, 'a request that is counted')
  for (const stop of [async () => redis.freeze(), redis.kill]) {
    await stop()
    t.same(await statuses(get('/user', oauth(member)), 5), [200, 200, 200, 200, 200])
    const refused = await send(get('/strict', oauth(member)))
    t.equal(refused.status, 503)
    t.match(refused.json(), { success: false, error: { status: 503, code: 'rate_limit_unavailable' } })
    redis.thaw()
  }
  t.match(await metrics(), /sallyport_rate_limit_errors_total\{limit="user",outcome="allow"\} \d\d/)
  t.match(await metrics(), /sallyport_rate_limit_errors_total\{limit="strict",outcome="deny"\} [2-9]/)
  await redis.restart()
  await until(counted, 'Redis again')
  let passed = 0
  const isSpent = async (): Promise<boolean> => {
    const status = await strict()
    if (status === 200) passed += 1
    return status === 429
  }
  await until(isSpent, 'the end of the budget')
  t.ok(passed > 0 && passed <= 3, `${passed} passed`)
})

testRedisServer(t, 'while Redis refuses to count, limits fall back, and the log says so once', async (t) => {
  const redis = await startRedisServer(t)
  const upstream = await startHttpUpstream(t, (request, response) =>
    request.resume().on('end', () => response.end('ok')),
  )
  const limit = { requests: 1_000_000, ...hour, by: 'route' }
  const policies = t.testdir({
    'roles.yaml': readFileSync(new URL('../../policies/roles.yaml', import.meta.url), 'utf8'),
    'routes.yaml': JSON.stringify({
      rateLimits: { lenient: limit, strict: { ...limit, onError: 'deny' } },
      routes: [
        { ...open('lenient'), rateLimit: 'lenient' },
        { ...open('strict'), rateLimit: 'strict' },
      ],
    }),
  })
  const settings = { redis: { url: redis.url }, policies: { directory: policies } }
  const gateway = await startServing(t, { settings, upstream: upstream.url })
  const status = async (path: string): Promise<number> => (await call(gateway.public, get(path))).status
  const gauges = async (): Promise<string> => (await call(gateway.admin, { path: '/metrics' })).text
  await until(async () => (await status('/open/strict')) === 200, 'Redis')
  await redis.tell('CONFIG SET maxmemory 1')
  for (let time = 0; time < 10; time += 1) {
    t.equal(await status('/open/lenient'), 200)
    t.equal(await status('/open/strict'), 503)
  }
  t.match(await gauges(), 'sallyport_redis_refusing{command="count"} 1')
  t.match(await gauges(), 'sallyport_invalidation_source_up{source="redis"} 1', 'changes are heard all the same')
  await redis.tell('CONFIG SET maxmemory 0')
  const told = (): readonly object[] => gateway.log().filter(({ msg }) => String(msg).startsWith('redis '))
  await until(async () => (await status('/open/strict')) === 200 && told().length > 1, 'the end', 20_000)
  t.match(told(), [
    { level: 'warn', command: 'count', cause: 'OOM', consequence: /rate limits/, msg: 'redis command refused' },
    { level: 'info', command: 'count', msg: 'redis command accepted again' },
  ])
  t.equal(told().length, 2)
  t.match(await gauges(), 'sallyport_redis_refusing{command="count"} 0')
})
