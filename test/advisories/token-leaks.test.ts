import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { until } from '../support/gateway.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnProcess: true })
const { member } = world.users
const { robot } = world.serviceAccounts

/** Every part of a credential that would be of use to a reader. */
const secretsOf = (token: string): readonly string[] => {
  const [, ...parts] = token.split('.')
  return [token, ...parts, ...parts.map((part) => Buffer.from(part, 'base64url').toString('latin1'))].filter(
    (text) => text.length >= 20,
  )
}

const escapeAll = (text: string): string => [...text].map((letter) => `%${letter.charCodeAt(0).toString(16)}`).join('')

// Pomerium CVE-2024-39315: tokens stood where others could read them. Here: in answers, logs and metrics.
t.test('no credential comes back or is written down, wherever a client puts it', async (t) => {
  const tokens = [robot.apiKey, robot.revoked, member.jwt]
  const answers: string[] = []
  const send = async (path: string, headers: Record<string, string | string[]> = {}): Promise<void> => {
    const { text, rawHeaders } = await world.call({ path, headers })
    answers.push(`${rawHeaders.join('\n')}\n${text}`)
  }
  for (const token of tokens) {
    await send('/users/me', { authorization: `Bearer ${token}x` })
    await send('/users/me', { 'x-oauth-access-token': `${token}x` })
    await send('/users/me', { authorization: [`Bearer ${token}`, `Bearer ${token}`] })
    await send('/users/me', { ...bearer(token), 'x-oauth-access-token': token })
    await send('/users/me', { authorization: `Basic ${token}` })
    await send('/users/me', { 'x-request-id': token.slice(0, 128) })
    await send('/users/me', { 'user-agent': token, referer: `https://x/?t=${token}`, cookie: `t=${token}` })
    await send(`/nowhere?access_token=${token}`)
    await send(`/nowhere/${token}`)
    for (const place of [
      token,
      token.replace('_', '%5f').replace('.', '%2e'),
      token.replace('e', '%65').replace('o', '%6F'),
    ])
      for (const path of [`/public/${place}`, `/public/x${place}y/z`, `/datasets/${place}`]) {
        await send(path)
        await send(path, { 'x-organization-id': token })
      }
    if (token.length < 200) await send(`/public/${escapeAll(token)}`)
    await send('/public/..%2f', { 'x-organization-id': token })
    await world.raw(`GET /${token} HTTP/1.1\r\nHost: ${token}\r\nConnection: close\r\n\r\n`)
    await world.raw(`${token} / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`)
  }
  const mark = `mark-${Date.now()}`
  await world.call({ path: '/nowhere', headers: { 'x-request-id': mark } })
  const readLog = (): string => readFileSync(join(world.directory, 'gateway.log'), 'utf8')
  await until(() => readLog().includes(mark), 'our last line in the log', 10_000)
  const metrics = await (await fetch(`${world.admin}/metrics`)).text()
  // A reader can undo an escape.
  const places = { 'the answers': answers.join('\n'), 'the log': readLog(), 'the metrics': metrics }
  for (const [place, text] of Object.entries(places)) {
    const decoded = text.replace(/%([0-7][0-9a-f])/gi, (_escape, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    )
    for (const secret of tokens.flatMap(secretsOf)) t.notOk(decoded.includes(secret), `not in ${place}`)
  }
  t.match(readLog(), /\[redacted\]/)
})

t.test('a line of the log stays one line, whatever a client writes', async (t) => {
  const readLines = (): readonly string[] =>
    readFileSync(join(world.directory, 'gateway.log'), 'utf8').trimEnd().split('\n')
  const before = readLines().length
  const mark = `end-${Date.now()}`
  for (const path of ['/public/%0a%7b%22level%22', '/public/a%20b"}', '/public/%E2%80%A8x', '/public/\\u000a'])
    await world.call({
      path,
      headers: { ...oauth(member), 'user-agent': 'x"}\t{"level":"info"', 'x-request-id': 'a b\t{"c' },
    })
  await world.call({ path: '/nowhere', headers: { 'x-request-id': mark } })
  await until(() => readLines().some((line) => line.includes(mark)), 'our last line in the log', 10_000)
  const lines = readLines().slice(before)
  t.equal(lines.filter((line) => JSON.parse(line).msg.startsWith('request')).length, 5, 'one for each request')
})
