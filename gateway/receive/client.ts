import { BlockList, isIP } from 'node:net'
import type { Exchange } from '../http/exchange.ts'
import { type ForwardedHeaders, isHost, type RequestHeaders } from './headers.ts'

/** Who speaks to us, and what a backend is told about it. */
export type Client = Readonly<{
  /** The client's address: the nearest one in the chain that is not a trusted proxy of ours. */
  address: string
  /** What X-Forwarded-For will say: the believed chain, then the peer. */
  forwardedFor: string
  proto: string
  host: string
}>

/** The proxies whose word about the client counts. */
export type TrustedProxies = (address: string) => boolean

/** Compiles CIDR blocks and single addresses; malformed ones throw a sentence. */
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

/** Reads X-Forwarded-* from a trusted peer; from anybody else the connection itself is all there is. */
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

/** IPv4 peers of a dual-stack listener come as ::ffff:192.0.2.1. */
const plainAddress = (address: string): string => (address.startsWith('::ffff:') ? address.slice(7) : address)

/** The chain is believed from its right end, up to and with the first address that is no proxy of ours. */
function readChain(forwarded: ForwardedHeaders, peer: string, isTrusted: TrustedProxies) {
  const chain = forwarded.for.flatMap((line) => line.split(',')).map((part) => plainAddress(part.trim()))
  const believed: string[] = [peer]
  for (const address of chain.reverse()) {
    if (isIP(address) === 0) break
    believed.push(address)
    if (!isTrusted(address)) break
  }
  return { address: believed.at(-1) ?? peer, forwardedFor: believed.reverse().join(', ') }
}

function readOrigin(forwarded: ForwardedHeaders, own: Readonly<{ proto: string; host: string }>) {
  const [proto] = forwarded.proto
  const [host] = forwarded.host
  return {
    proto: forwarded.proto.length === 1 && (proto === 'http' || proto === 'https') ? proto : own.proto,
    host: forwarded.host.length === 1 && host !== undefined && isHost(host) ? host : own.host,
  }
}
