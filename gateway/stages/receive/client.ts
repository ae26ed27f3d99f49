import { BlockList, isIP, isIPv4, isIPv6, SocketAddress } from 'node:net'
import { ownText } from '../../base/lib/own-text.ts'
import { trimBlanks } from '../../base/lib/trim-blanks.ts'
import type { Exchange } from '../../http/exchange.ts'
import { type ForwardedHeaders, isHost, type RequestHeaders } from './headers.ts'

export type Client = Readonly<{
  /** The nearest address in the chain that is not a trusted proxy. */
  address: string
  /** The value of X-Forwarded-For: the trusted part of the chain, then the peer. */
  forwardedFor: string
  proto: string
  host: string
  /** Present if an item ended the chain because it is not an address. */
  unreadableChain?: Readonly<{ peer: string }>
}>

export type TrustedProxies = (address: string) => boolean

/** Compiles CIDR blocks and single addresses. Throws a sentence for a malformed one. */
export function trustProxies(blocks: readonly string[]): TrustedProxies {
  if (blocks.length === 0) return () => false
  const list = new BlockList()
  for (const block of blocks) {
    const [address = '', prefix, ...more] = block.split('/')
    const family = isIP(address)
    const bits = prefix === undefined ? (family === 6 ? 128 : 32) : /^\d{1,3}$/.test(prefix) ? Number(prefix) : -1
    if (family === 0 || more.length > 0 || bits < 0 || bits > (family === 6 ? 128 : 32))
      throw new Error(`"${block}" is not an address or CIDR block`)
    list.addSubnet(address, bits, family === 6 ? 'ipv6' : 'ipv4')
  }
  return (address) => {
    const family = isIP(address)
    return family !== 0 && list.check(address, family === 6 ? 'ipv6' : 'ipv4')
  }
}

/** Trusts X-Forwarded-* from a trusted peer alone; for any other peer the connection itself decides. */
export function readClient(
  exchange: Pick<Exchange, 'peerAddress' | 'isEncrypted'>,
  headers: Pick<RequestHeaders, 'host' | 'forwarded'>,
  isTrusted: TrustedProxies,
): Client {
  const peer = plainAddress(exchange.peerAddress)
  const own = { proto: exchange.isEncrypted ? 'https' : 'http', host: headers.host }
  if (!isTrusted(peer)) return { address: peer, forwardedFor: peer, ...own }
  return { ...readChain(headers.forwarded, peer, isTrusted), ...readOrigin(headers.forwarded, own) }
}

const plainAddress = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

/** Trusts the chain from its right end, up to and with the first address that is not a trusted proxy. */
function readChain(forwarded: ForwardedHeaders, peer: string, isTrusted: TrustedProxies) {
  // A line without text is a proxy that knows of no chain.
  const items = forwarded.for.filter((line) => trimBlanks(line) !== '').flatMap((line) => line.split(','))
  const believed: string[] = [peer]
  let isUnreadable = false
  for (const item of items.reverse()) {
    const address = readAddress(trimBlanks(item))
    // All further left is the word of an unknown hop, so it must not be reached by leaving this item out.
    if (address === undefined) isUnreadable = true
    else believed.push(address)
    if (address === undefined || !isTrusted(address)) break
  }
  return {
    address: ownText(believed.at(-1) ?? peer),
    forwardedFor: believed.reverse().join(', '),
    ...(isUnreadable && { unreadableChain: { peer } }),
  }
}

// Azure Application Gateway writes `address:port`, IIS ARR `[address]:port`, others brackets alone.
const withPort = /^(?:([\d.]+)|\[([^\]]*)\])(?::(\d{1,5}))?$/

/**
 * The address of one item, in its usual spelling and without its port; undefined for any other text. The other forms of
 * RFC 7239 (`unknown`, `_hidden`, quotes) name no address. A zone has a meaning on its own machine alone.
 */
export function readAddress(item: string): string | undefined {
  if (isIPv4(item)) return item
  const [, plain, bracketed, port] = withPort.exec(item) ?? []
  if (Number(port ?? 0) > 65_535) return undefined
  if (plain !== undefined) return isIPv4(plain) ? plain : undefined
  const address = bracketed ?? item
  if (!isIPv6(address) || address.includes('%')) return undefined
  // One spelling for each address: a mapped one in hexadecimal must meet the same rules as its IPv4 address.
  return plainAddress(new SocketAddress({ address, family: 'ipv6' }).address)
}

function readOrigin(forwarded: ForwardedHeaders, own: Readonly<{ proto: string; host: string }>) {
  const proto = readScheme(forwarded.proto.join(','))
  const [host] = forwarded.host
  return {
    proto: proto ?? own.proto,
    host: forwarded.host.length === 1 && host !== undefined && isHost(host) ? host : own.host,
  }
}

/** Traefik writes the scheme of a WebSocket. */
const schemes: ReadonlyMap<string, 'http' | 'https'> = new Map([
  ['http', 'http'],
  ['https', 'https'],
  ['ws', 'http'],
  ['wss', 'https'],
])

/**
 * The scheme that X-Forwarded-Proto names, in any case (RFC 3986 3.1); undefined for any other text. Each proxy of a
 * chain may add an item. Which of them trusted proxies wrote is unknown, so items that differ name none.
 */
export function readScheme(line: string): 'http' | 'https' | undefined {
  const [first, ...others] = line.split(',').map((item) => schemes.get(trimBlanks(item).toLowerCase()))
  return others.every((other) => other === first) ? first : undefined
}
