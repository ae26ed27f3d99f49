import t from 'tap'
import { readNetwork } from '../../../gateway/base/network/network.ts'
import { ownerOfAddress } from '../../../gateway/stages/limit/limit.ts'

t.test('IPv6 addresses of one /64 spend of one budget, IPv4 addresses each of their own', async (t) => {
  for (const [address, network] of [
    ['192.0.2.7', '192.0.2.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
    ['2001:DB8:0001:2::1', '2001:db8:1:2'],
    ['2001:db8::1', '2001:db8:0:0'],
    ['2001:db8:1::5:6:7:8', '2001:db8:1:0'],
    ['::1', '0:0:0:0'],
    ['::', '0:0:0:0'],
    ['fe80::1%eth0', 'fe80:0:0:0'],
    ['64:ff9b::192.0.2.7', '64:ff9b:0:0'],
    ['1::2:3:4:5:192.0.2.7', '1:0:2:3'],
  ] as const)
    t.equal(readNetwork(address), network, address)
})

t.test("the key of an address's budget does not hold the address", async (t) => {
  const owner = ownerOfAddress('192.0.2.7')
  t.match(owner, /^address:[\w-]{22}$/)
  t.equal(ownerOfAddress('192.0.2.7'), owner)
  t.not(ownerOfAddress('192.0.2.8'), owner)
  t.equal(ownerOfAddress('2001:db8::1'), ownerOfAddress('2001:db8::2'))
})
