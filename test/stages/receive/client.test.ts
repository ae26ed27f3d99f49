import t from 'tap'
import { readClient, trustProxies } from '../../../gateway/stages/receive/client.ts'

type Said = Readonly<{ for?: readonly string[]; proto?: readonly string[]; host?: readonly string[] }>

const readFrom = (peerAddress: string, trusted: readonly string[], said: Said = {}, isEncrypted = false) =>
  readClient(
    { peerAddress, isEncrypted },
    { host: 'h', forwarded: { for: [], proto: [], host: [], ...said } },
    trustProxies(trusted),
  )

const lies: Said = { for: ['6.6.6.6'], proto: ['https'], host: ['evil.example'] }

t.test('without trusted proxies only the connection counts', async (t) => {
  t.same(readFrom('192.0.2.1', [], lies), {
    address: '192.0.2.1',
    forwardedFor: '192.0.2.1',
    proto: 'http',
    host: 'h',
  })
  t.equal(readFrom('192.0.2.1', [], lies, true).proto, 'https')
})

t.test('a peer that is not a trusted proxy is not believed', async (t) => {
  t.match(readFrom('192.0.2.1', ['10.0.0.0/8', '192.0.2.2'], lies), { address: '192.0.2.1', proto: 'http', host: 'h' })
})

t.test('a trusted peer names the client', async (t) => {
  t.same(readFrom('10.1.2.3', ['10.0.0.0/8'], { for: ['203.0.113.9'], proto: ['https'], host: ['shop.example'] }), {
    address: '203.0.113.9',
    forwardedFor: '203.0.113.9, 10.1.2.3',
    proto: 'https',
    host: 'shop.example',
  })
})

t.test('the chain is believed from its end, up to the first address that is not a trusted proxy', async (t) => {
  const chain = { for: ['6.6.6.6, 203.0.113.9', '10.0.0.7'] }
  t.match(readFrom('10.1.2.3', ['10.0.0.0/8'], chain), {
    address: '203.0.113.9',
    forwardedFor: '203.0.113.9, 10.0.0.7, 10.1.2.3',
  })
})

t.test('an item with a port or brackets is the address alone', async (t) => {
  for (const [item, address] of [
    ['203.0.113.9:4711', '203.0.113.9'],
    ['203.0.113.9:0', '203.0.113.9'],
    ['[2001:db8::9]:4711', '2001:db8::9'],
    ['[2001:db8::9]', '2001:db8::9'],
    ['2001:db8::9', '2001:db8::9'],
    ['2001:DB8:0:0::9', '2001:db8::9'],
    ['[::ffff:203.0.113.9]:4711', '203.0.113.9'],
    ['::FFFF:203.0.113.9', '203.0.113.9'],
    ['::ffff:cb00:7109', '203.0.113.9'],
    ['  203.0.113.9:4711\t', '203.0.113.9'],
  ] as const)
    t.same(
      readFrom('10.1.2.3', ['10.0.0.0/8'], { for: [item] }),
      { address, forwardedFor: `${address}, 10.1.2.3`, proto: 'http', host: 'h' },
      item,
    )
  t.match(
    readFrom('10.1.2.3', ['10.0.0.0/8'], { for: ['6.6.6.6:1, 203.0.113.9:2', '[::ffff:a00:7]:3'] }),
    { address: '203.0.113.9', forwardedFor: '203.0.113.9, 10.0.0.7, 10.1.2.3' },
    'a trusted proxy is known with its port, too',
  )
})

t.test('a malformed item ends the chain, and says so', async (t) => {
  for (const odd of [
    ...[
      'unknown',
      '_hidden',
      '1.2.3',
      '"[::1]"',
      '"203.0.113.9:1"',
      '203.0.113.9, x',
      '203.0.113.9,',
      ', ,',
      'for=1.2.3.4',
    ],
    ...[
      '10.0.0.7:',
      '10.0.0.7:x',
      '10.0.0.7:65536',
      '10.0.0.7:0x50',
      '10.0.0.7:1:2',
      '10.0.0.7 x',
      '010.0.0.7',
      '10.0.0.7/8',
    ],
    ...[
      '[10.0.0.7]',
      '[10.0.0.7]:1',
      '[::1',
      '::1]',
      '[[::1]]',
      '[]',
      '[]:1',
      '[::1]1',
      '[::1]:',
      '[::1]:65536',
      ':80',
    ],
    ...[
      'fe80::1%eth0',
      '[fe80::1%25eth0]:1',
      '::ffff:10.0.0.7:80',
      '10.0.0.7\u00a0',
      'localhost',
      'unix:',
      '0x0a000007',
    ],
  ])
    t.same(
      readFrom('10.1.2.3', ['10.0.0.0/8'], { for: [`203.0.113.9,${odd}`] }),
      {
        address: '10.1.2.3',
        forwardedFor: '10.1.2.3',
        proto: 'http',
        host: 'h',
        unreadableChain: { peer: '10.1.2.3' },
      },
      odd,
    )
})

t.test('items left of an unreadable one, or of a stranger, are not read', async (t) => {
  t.match(readFrom('10.1.2.3', ['10.0.0.0/8'], { for: ['10.0.0.9, unknown, 10.0.0.7:1'] }), {
    address: '10.0.0.7',
    unreadableChain: { peer: '10.1.2.3' },
  })
  const behind = readFrom('10.1.2.3', ['10.0.0.0/8'], { for: ['unknown, 203.0.113.9:1'] })
  t.match(behind, { address: '203.0.113.9' })
  t.notOk('unreadableChain' in behind, 'a client cannot cause a warning')
  t.notOk('unreadableChain' in readFrom('203.0.113.9', ['10.0.0.0/8'], { for: ['unknown'] }))
})

t.test('a line without text begins no chain', async (t) => {
  for (const lines of [[], [''], [' ', '']])
    t.notOk('unreadableChain' in readFrom('10.1.2.3', ['10.0.0.0/8'], { for: lines }))
})

t.test('an IPv4 peer of a dual-stack listener is that IPv4 address', async (t) => {
  t.match(readFrom('::ffff:10.1.2.3', ['10.0.0.0/8'], { for: ['203.0.113.9'] }), {
    forwardedFor: '203.0.113.9, 10.1.2.3',
  })
})

t.test('IPv6 proxies are trusted by block and by address', async (t) => {
  for (const trusted of ['2001:db8::/32', '2001:db8::7'])
    t.equal(readFrom('2001:db8::7', [trusted], { for: ['2001:db9::1'] }).address, '2001:db9::1', trusted)
  t.equal(readFrom('2001:db8::8', ['2001:db8::7'], { for: ['2001:db9::1'] }).address, '2001:db8::8')
})

t.test('a scheme counts only where all that the proxies name is one, and that of a WebSocket is its own', async (t) => {
  for (const isEncrypted of [false, true]) {
    const own = isEncrypted ? 'https' : 'http'
    for (const proto of [
      ...[['ftp'], ['https, http'], ['http', 'https'], ['wss, ws'], ['https,'], [',https'], ['https', ''], [''], []],
      ...[['https\u00a0'], ['https:'], ['https;http'], ['"https"'], ['httpſ'], ['__proto__']],
    ])
      t.equal(readFrom('10.1.2.3', ['10.1.2.3'], { proto }, isEncrypted).proto, own, proto.join('|'))
    for (const [proto, scheme] of [
      ...[['https'], ['HTTPS'], ['wss'], ['WSS'], ['https,https'], ['wss , https'], ['https', 'wss']].map(
        (lines) => [lines, 'https'] as const,
      ),
      ...[['http'], ['Http'], ['ws'], ['WS'], ['http,\tws'], ['ws', 'http']].map((lines) => [lines, 'http'] as const),
    ])
      t.equal(readFrom('10.1.2.3', ['10.1.2.3'], { proto }, isEncrypted).proto, scheme, proto.join('|'))
  }
})

t.test('a host counts only where the proxy names exactly one, and a well-formed one', async (t) => {
  for (const host of [['a', 'b'], ['a,b'], ['a/b'], ['a b'], ['user@a'], [''], ['x'.repeat(256)]])
    t.equal(readFrom('10.1.2.3', ['10.1.2.3'], { host }).host, 'h', host.join('|'))
  t.equal(readFrom('10.1.2.3', ['10.1.2.3'], { host: ['[::1]:8080'] }).host, '[::1]:8080')
})

t.test('a block covers its addresses and no others', async (t) => {
  const isTrusted = trustProxies(['192.0.2.0/25', '198.51.100.7'])
  for (const address of ['192.0.2.0', '192.0.2.127', '198.51.100.7']) t.ok(isTrusted(address), address)
  for (const address of ['192.0.2.128', '192.0.1.255', '198.51.100.8', '::1', 'x', ''])
    t.notOk(isTrusted(address), address)
})

t.test('a malformed address or block is refused by its name', async (t) => {
  for (const block of [
    '',
    'x',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0',
    '::/129',
    'host.example',
  ])
    t.throws(() => trustProxies([block]), { message: `"${block}" is not an address or CIDR block` }, block)
})
