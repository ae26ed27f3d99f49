import t from 'tap'
import { readClient, trustProxies } from '../../gateway/receive/client.ts'

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

t.test('a malformed address ends the chain', async (t) => {
  for (const odd of ['unknown', '_hidden', '', '1.2.3', '1.2.3.4:80', '"[::1]"', '203.0.113.9, x'])
    t.match(
      readFrom('10.1.2.3', ['10.0.0.0/8'], { for: [odd] }),
      { address: '10.1.2.3', forwardedFor: '10.1.2.3' },
      odd,
    )
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

t.test('a scheme or a host counts only where the proxy names exactly one, and a well-formed one', async (t) => {
  for (const proto of [['ftp'], ['https', 'https'], ['https, http'], ['HTTPS'], ['']])
    t.equal(readFrom('10.1.2.3', ['10.1.2.3'], { proto }).proto, 'http', proto.join('|'))
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
