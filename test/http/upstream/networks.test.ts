import { createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { createEngine } from '../../../gateway/http/create-engine.ts'
import { UpstreamError, type UpstreamResult } from '../../../gateway/http/engine.ts'
import { createDnsCache } from '../../../gateway/http/upstream/dns-cache.ts'
import { createNetworks, type Networks } from '../../../gateway/http/upstream/networks.ts'
import { createResolver } from '../../../gateway/http/upstream/resolver.ts'
import { until } from '../../support/gateway.ts'

const none = { allow: [], deny: [] }
const ports = new Set([8080, 8081, 9090])

/** Loopback, unspecified, link-local, multicast, broadcast and metadata, and all of them wrapped. */
const closed = [
  ...['127.0.0.1', '127.255.255.254', '0.0.0.0', '0.1.2.3', '169.254.169.254', '169.254.0.1', '224.0.0.1'],
  ...['239.255.255.250', '240.0.0.1', '255.255.255.255', '168.63.129.16', '100.100.100.200', '192.0.0.192'],
  ...['::', '::1', 'fe80::1', 'fe80::1%lo', 'febf::1', 'ff02::1', 'fd00:ec2::254', 'fd00:ec2::23', 'fd20:ce::254'],
  ...['::ffff:127.0.0.1', '::ffff:7f00:1', '0:0:0:0:0:ffff:7f00:0001', '::127.0.0.1', '::7f00:1', '::ffff:0:127.0.0.1'],
  ...['64:ff9b::127.0.0.1', '64:ff9b::a9fe:a9fe', '64:ff9b:1::127.0.0.1', '64:ff9b:1:a9fe:a9:fe00::'],
  ...['64:ff9b:1:7f:0:1::', '64:ff9b:1:0:7f:0:100:0', '2002:7f00:1::', '2002:a9fe:a9fe::1', '::ffff:100.100.100.200'],
  '2001:0:4136:e378:8000:63bf:80ff:fffe',
]

const open = [
  ...['10.0.0.1', '172.16.0.1', '192.168.1.1', '8.8.8.8', '100.64.0.1', '128.0.0.1', '223.255.255.255'],
  ...['2001:db8::1', 'fd12:3456::1', '::ffff:8.8.8.8', '64:ff9b::8.8.8.8', '64:ff9b:1::8.8.8.8', '2002:808:808::1'],
]

t.test(
  'no cluster is at this machine, on this link, or at a service of the cloud, however that is written',
  async (t) => {
    const networks = createNetworks(none, ports)
    for (const address of closed) t.notOk(networks.admits(address, 443), address)
    for (const address of open) t.ok(networks.admits(address, 443), address)
    for (const address of ['', 'localhost', '127.1', '0x7f.1', '[::1]', '8.8.8.8.'])
      t.notOk(networks.admits(address, 443))
  },
)

t.test('deny wins over allow, and an IPv4 address within an IPv6 one counts as that IPv4 address', async (t) => {
  const networks = createNetworks(
    { allow: ['127.0.0.0/8', '::1', '10.0.0.0/8'], deny: ['10.1.0.0/16', '64:ff9b::/96'] },
    ports,
  )
  for (const address of ['127.0.0.1', '::1', '10.2.0.1', '::ffff:127.0.0.1', '2002:7f00:1::'])
    t.ok(networks.admits(address, 443), address)
  for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '2002:a01:203::', '64:ff9b::8.8.8.8', '64:ff9b::127.0.0.1'])
    t.notOk(networks.admits(address, 443), address)
})

t.test('a metadata service is opened by its very address alone', async (t) => {
  const wide = createNetworks({ allow: ['0.0.0.0/0', '::/0'], deny: [] }, ports)
  for (const address of [
    '169.254.169.254',
    '168.63.129.16',
    '100.100.100.200',
    'fd00:ec2::254',
    '::ffff:169.254.169.254',
  ])
    t.notOk(wide.admits(address, 80), address)
  t.ok(createNetworks({ allow: ['169.254.169.254'], deny: [] }, ports).admits('169.254.169.254', 80))
})

t.test('a listener of this gateway is not a cluster, even where its address is allowed', async (t) => {
  const networks = createNetworks({ allow: ['0.0.0.0/0', '::/0'], deny: [] }, ports)
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address))
  for (const address of [...own, '127.0.0.1', '127.9.9.9', '0.0.0.0', '::', '::1', '::ffff:127.0.0.1']) {
    for (const port of ports) t.notOk(networks.admits(address, port), `${address} ${port}`)
    if (!address.startsWith('169.254.')) t.ok(networks.admits(address, 3000), address)
  }
  t.ok(networks.admits('192.0.2.1', 8080), 'the port of another machine')
})

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi'
const skip = process.platform === 'linux' ? false : 'all of 127.0.0.0/8 is loopback on Linux'

t.test('a name counts by the address that is connected to, at each connection', { skip }, async (t) => {
  const sockets: Socket[] = []
  let port = 0
  for (const host of ['127.0.0.1', '127.0.0.2']) {
    const server = createServer((socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      socket.on('data', () => socket.write(ok))
    })
    await new Promise<void>((resolve) => server.listen(port, host, resolve))
    port = (server.address() as { port: number }).port // a TCP listener's address is never a string
    t.teardown(() => server.close())
  }
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  let answer: readonly string[] = ['127.0.0.1', '127.0.0.2']
  const names = createDnsCache({
    cacheMs: 1,
    resolver: createResolver((_name, tell) =>
      tell(
        null,
        answer.map((address) => ({ address, family: 4 })),
      ),
    ),
  })
  const engine = createEngine({ maxUpstreamConnections: 10, names })
  t.teardown(() => engine.close())
  const networks: Networks = createNetworks({ allow: ['127.0.0.2'], deny: [] }, ports)
  const send = (isFreshConnection: boolean): Promise<UpstreamResult> =>
    engine.send({
      origin: `http://rebound.test:${port}`,
      networks,
      method: 'GET',
      path: '/',
      headers: [],
      body: undefined,
      asksForWebSocket: false,
      bodyLimitBytes: 0,
      timeouts: { connectMs: 2_000, firstByteMs: 2_000, idleMs: 2_000 },
      isFreshConnection,
      onCancellable: () => undefined,
    })
  const read = async (answered: UpstreamResult): Promise<void> => {
    if ('connection' in answered) throw new Error('not an upgrade')
    await new Promise<void>((resolve, reject) =>
      answered.pipe({ data: () => true, end: () => resolve(), fail: reject }),
    )
  }
  for (let count = 0; count < 4; count += 1) await read(await send(true))
  const addresses = () => sockets.map(({ localAddress }) => localAddress)
  t.same(new Set(addresses()), new Set(['127.0.0.2']), 'of several addresses those that are admitted')
  answer = ['127.0.0.1']
  const refuses = async () => {
    const error: unknown = await send(false).then(read, (caught: unknown) => caught)
    return error instanceof UpstreamError && error.fault === 'unreachable'
  }
  await until(refuses, 'the name leads elsewhere')
  t.ok(await refuses())
  t.notOk(addresses().includes('127.0.0.1'), 'which was never connected to')
})
