import { decodeJwt } from 'jose'
import t from 'tap'
import { openRawClient, startRawUpstream, until } from '../support/gateway.ts'
import { populate } from '../support/population.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const { writer } = await populate(t, world)
const { member } = world.users
const forbidden = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
const { host: forbiddenHost } = new URL(forbidden.url)

// Server-side request forgery: the request says where the proxy is to go.
t.test('no target, host or header chooses which server is asked', async (t) => {
  let passed = 0
  for (const [target, host] of [
    [`${forbidden.url}/public/x`, 'h'],
    [`${forbidden.url}/public/x`, forbiddenHost],
    [`//${forbiddenHost}/public/x`, 'h'],
    [`/\\${forbiddenHost}/public/x`, 'h'],
    [`http:${forbiddenHost}/public/x`, 'h'],
    [`http://h@${forbiddenHost}/public/x`, 'h'],
    [`/public/x`, `h@${forbiddenHost}`],
    [`/public/@${forbiddenHost}/`, 'h'],
    [`/public/http://${forbiddenHost}/`, forbiddenHost],
    [`@${forbiddenHost}/public/x`, 'h'],
    [`:${forbiddenHost.split(':')[1]}/public/x`, 'h'],
    [`/public/%5c%5c${forbiddenHost}`, 'h'],
    ['/public/x', forbiddenHost],
  ] as const) {
    const client = await openRawClient(t, world.public)
    const more = `X-Forwarded-Host: ${forbiddenHost}\r\nX-Host: ${forbiddenHost}\r\nX-Original-Url: ${forbidden.url}\r\n`
    client.send(
      `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nx-oauth-access-token: ${member.jwt}\r\n${more}Connection: close\r\n\r\n`,
    )
    if ((await client.closed()).startsWith('HTTP/1.1 200 ')) passed += 1
  }
  t.equal(forbidden.sockets().length, 0, 'it was never asked')
  t.equal(passed, 3, 'a request that names another host in its path or Host goes where it always does')
})

const asCluster = async (baseUrl: string, rest: string) => {
  await writer.query('update clusters set base_url = $1 where id = $2', [baseUrl, world.clusters.healthy])
  // The change is heard of by itself.
  const path = `/clusters/${world.clusters.healthy}/proxy/${rest}`
  return () => world.call({ path, headers: oauth(member) })
}

t.test('a path never leaves its cluster’s base address', async (t) => {
  const cluster = await startRawUpstream(t, (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'))
  const ask = await asCluster(`${cluster.url}/base/`, 'first')
  await until(
    async () => (await ask()).status === 200 && cluster.sockets().length > 0,
    'the cluster at its new address',
  )
  for (const rest of ['../x', '..%2fx', '%2e%2e/x', '/x', '..;/x', `/${forbiddenHost}/x`, '%2f%2fx', 'a/../../x'])
    t.equal((await world.call({ path: `/clusters/1/proxy/${rest}`, headers: oauth(member) })).status, 400, rest)
  for (const rest of [`@${forbiddenHost}/x`, `http:x`, `${forbiddenHost}`])
    t.equal((await world.call({ path: `/clusters/1/proxy/${rest}`, headers: oauth(member) })).status, 200, rest)
  const received = cluster.received().join('')
  for (const [, target = ''] of received.matchAll(/^GET (\S+) HTTP/gm)) t.match(target, /^\/base\/(?!\/)/)
  t.equal(forbidden.sockets().length, 0)
  const [, identity = ''] = /\r\nx-gateway-identity: (.*)\r\n/i.exec(received) ?? []
  t.equal(
    decodeJwt(identity).aud,
    `cluster:${world.clusters.healthy}`,
    'what a cluster is told is of use to that cluster alone',
  )
})

t.test('an address of another protocol is a cluster that cannot be reached', async (t) => {
  for (const address of [
    'file:///etc/passwd',
    'gopher://127.0.0.1:1/',
    'javascript:1',
    'not an address',
    'http://',
    '',
  ]) {
    const ask = await asCluster(address, `x?${encodeURIComponent(address)}`)
    await until(async () => (await ask()).status === 503, address)
    t.pass(address)
  }
})
