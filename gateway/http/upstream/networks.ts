import { BlockList, isIP, type LookupFunction } from 'node:net'
import { networkInterfaces } from 'node:os'
import { embeddedAddresses } from './embedded-address.ts'

export type Networks = Readonly<{ admits: (address: string, port: number) => boolean }>

export type NetworkRules = Readonly<{ allow: readonly string[]; deny: readonly string[] }>

/** Loopback, link-local, multicast and unspecified networks (RFC 6890, RFC 4291, RFC 5771). */
const neverPublic = [
  '0.0.0.0/8',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '224.0.0.0/4',
  '240.0.0.0/4',
  '::/128',
  '::1/128',
  'fe80::/10',
  'ff00::/8',
]

/** Services of clouds that hand out credentials of the machine, where no other block has them: Azure, Alibaba, Oracle, AWS, Google, Scaleway. */
const metadata = [
  '168.63.129.16',
  '100.100.100.200',
  '192.0.0.192',
  '169.254.0.0/16',
  'fd00:ec2::/32',
  'fd20:ce::254',
  'fd00:42::42',
]

/**
 * Compiles the rules; `deny` wins. Loopback and link-local networks need a block of `allow`, and a metadata service its
 * exact address. A listener of this gateway is never admitted. Throws a sentence for a malformed block.
 */
export function createNetworks({ allow, deny }: NetworkRules, listenerPorts: ReadonlySet<number>): Networks {
  const denied = new Blocks(deny)
  const allowed = new Blocks(allow)
  const named = new Blocks(allow.filter((block) => !block.includes('/')))
  const guarded = new Blocks(neverPublic)
  const services = new Blocks(metadata)
  const isOpen = (address: string): boolean => {
    if (denied.has(address)) return false
    if (services.has(address)) return named.has(address)
    return !guarded.has(address) || allowed.has(address)
  }
  return {
    admits: (text, port) => {
      const [address = ''] = text.split('%')
      if (isIP(address) === 0) return false
      const meant = embeddedAddresses(address)
      // An embedded address is judged by itself, but a block may refuse its wrapping.
      if (meant.length > 0 && denied.has(address)) return false
      const reached = meant.length > 0 ? meant : [address]
      return reached.every((each) => isOpen(each) && !(listenerPorts.has(port) && isOwn(each)))
    },
  }
}

export const admittedOnly =
  (lookup: LookupFunction, networks: Networks, port: number): LookupFunction =>
  (name, options, callback) =>
    lookup(name, { ...options, all: true }, (error, found) => {
      if (error || typeof found === 'string') {
        callback(error ?? refused(name), [])
        return
      }
      const addresses = found.filter(({ address }) => networks.admits(address, port))
      const [first] = addresses
      if (!first) callback(refused(name), [])
      else if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })

export const refused = (host: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`cluster.networks does not admit the address of ${host}`), { code: 'EACCES' })

const loopback = ['127.0.0.0/8', '0.0.0.0/8', '::/128', '::1/128']

/** Called only for the port of a listener, since interfaces come and go. */
function isOwn(address: string): boolean {
  const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map((each) => each.address))
  return new Blocks([...loopback, ...own.map((each) => each.split('%')[0] ?? '')]).has(address)
}

/** A list for each family: one `BlockList` takes an IPv4 address for an IPv6 one as well. */
class Blocks {
  readonly #lists = { 4: new BlockList(), 6: new BlockList() }

  constructor(blocks: readonly string[]) {
    for (const block of blocks) {
      const [address = '', prefix, ...more] = block.split('/')
      const family = isIP(address)
      const widest = family === 6 ? 128 : 32
      const bits = prefix === undefined ? widest : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1
      if (family === 0 || address.includes('%') || more.length > 0 || bits < 0 || bits > widest)
        throw new Error(`"${block}" is not an address or CIDR block`)
      if (family === 6) this.#lists[6].addSubnet(address, bits, 'ipv6')
      else this.#lists[4].addSubnet(address, bits, 'ipv4')
    }
  }

  has(address: string): boolean {
    return isIP(address) === 6 ? this.#lists[6].check(address, 'ipv6') : this.#lists[4].check(address, 'ipv4')
  }
}
