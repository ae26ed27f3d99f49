import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { robot } = world.serviceAccounts
const { admin, member } = world.users

/** Passwords of stores that do not answer, and every valid credential. */
const passwords = { database: 'hunter2-of-postgres', redis: 'hunter2-of-redis', collector: 'hunter2-of-otlp' }
const partsOf = (token: string): readonly string[] => [token, ...token.split('.').filter((part) => part.length >= 20)]
const secrets = [...Object.values(passwords), ...partsOf(robot.apiKey), ...partsOf(member.jwt)]

const environment = {
  OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
  OTEL_EXPORTER_OTLP_HEADERS: `authorization=${passwords.collector}`,
}

/** Requests that make a gateway log: tokens in every place, and upstreams and stores that are down. */
async function provoke({ public: origin, decision }: Serving): Promise<void> {
  for (const token of [robot.apiKey, member.jwt]) {
    for (const headers of [
      bearer(token),
      { 'x-oauth-access-token': token },
      { cookie: `a=${token}`, referer: token },
    ]) {
      await call(origin, { path: '/datasets', headers })
      await call(origin, { path: `/public/${token}?access_token=${token}`, headers })
      const original = { 'x-original-method': 'GET', 'x-original-uri': `/public/${token}?t=${token}` }
      await call(decision, { path: '/authorize', headers: { ...headers, ...original } })
    }
    await call(origin, { path: '/status', headers: { 'x-request-id': token } })
  }
}

t.test('no secret is in the log, at any level and in any format', async (t) => {
  const kinds = [
    { level: 'debug', format: 'json' },
    { level: 'debug', format: 'pretty' },
    { level: 'info', format: 'json' },
    { level: 'warn', format: 'json' },
    { level: 'error', format: 'pretty' },
  ]
  const look = async (log: Readonly<{ level: string; format: string }>): Promise<void> => {
    const database = { url: `postgres://gate:${passwords.database}@127.0.0.1:1/none`, connectTimeoutMs: 200 }
    const redis = { url: `redis://gate:${passwords.redis}@127.0.0.1:1` }
    const serving = await startServing(t, { world, settings: { log, database, redis }, environment })
    await provoke(serving)
    serving.child.kill('SIGTERM')
    await serving.ended
    const text = serving.stdout() + serving.stderr()
    for (const secret of secrets) t.notOk(text.includes(secret), `${log.level}, ${log.format}`)
    t.ok(text.includes('directory_unavailable'), 'the stores were missed')
    t.equal(/"level":"info"|^\S+ info/m.test(text), ['debug', 'info'].includes(log.level), 'and the level is obeyed')
  }
  await Promise.all(kinds.map(look))
})

t.test('debug tells of each change that is heard, and still of no secret', async (t) => {
  const redis = { url: `redis://gate:${passwords.redis}@127.0.0.1:1` }
  const serving = await startServing(t, { world, settings: { log: { level: 'debug' }, redis }, environment })
  await until(() => serving.log().some(({ msg }) => /invalidation source connected/.test(msg)), 'a source of changes')
  await provoke(serving)
  const path = `/organizations/${world.organizations.acme.id}/users/${robot.id}/tokens`
  const minted = await call(serving.public, {
    method: 'POST',
    path,
    headers: { ...oauth(admin), 'content-type': 'application/json' },
    body: '{"scope":"api-key"}',
  })
  t.equal(minted.status, 201)
  const { id, token } = minted.json().data
  const revoked = await call(serving.public, { method: 'DELETE', path: `${path}/${id}`, headers: oauth(admin) })
  t.equal(revoked.status, 200)
  await until(() => serving.log().some(({ level, kind }) => level === 'debug' && kind === 'token'), 'the change')
  t.match(
    serving.log().find(({ kind }) => kind === 'token'),
    { msg: 'invalidation received', source: 'postgres', id },
  )
  for (const secret of [...secrets, ...partsOf(token)]) t.notOk(serving.stdout().includes(secret))
})

const script = spawnSync('script', ['--version']).status === 0 ? undefined : 'there is no script(1)'

testUnlessLacking(
  t,
  'on a terminal lines are for people, elsewhere JSON, unless the configuration says which',
  async (t) => {
    const log = fileURLToPath(new URL('../../dist/gateway/observe/log/log.js', import.meta.url))
    const write = async (format: string, onTerminal: boolean): Promise<string> => {
      const source = `import { createLog } from '${log}'; createLog('info', { format: '${format}' }).info({ a: 1 }, 'hello')`
      const command = [process.execPath, '--input-type=module', '-e', source]
      const env = { PATH: process.env.PATH }
      const child = onTerminal
        ? spawn(
            'script',
            ['-qec', command.map((part) => `'${part.replaceAll("'", "'\\''")}'`).join(' '), '/dev/null'],
            { env },
          )
        : spawn(process.execPath, command.slice(1), { env })
      child.stdin.end()
      let text = ''
      child.stdout.on('data', (chunk: Buffer) => {
        text += chunk.toString()
      })
      await once(child, 'close')
      return text.trim()
    }
    const pretty = /^\d\d:\d\d:\d\d\.\d{3} \S*info \S* ?hello a=1$/
    t.match(await write('auto', true), pretty)
    t.match(await write('auto', true), '\u001b[32m', 'with colors')
    t.match(JSON.parse(await write('auto', false)), { level: 'info', msg: 'hello', a: 1 })
    t.match(JSON.parse(await write('json', true)), { msg: 'hello' })
    const forced = await write('pretty', false)
    t.match(forced, pretty)
    t.notMatch(forced, '\u001b', 'without colors')
  },
  script,
)
