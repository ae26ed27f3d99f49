import { BlockList, isIP } from 'node:net'
import type { Exchange } from '../http/exchange.ts'
import { ownText } from '../lib/own-text.ts'
import { type ForwardedHeaders, isHost, type RequestHeaders } from './headers.ts'

export type Client = Readonly<{
  /** The nearest address in the chain that is not a trusted proxy. */
  address: string
  /** The value of X-Forwarded-For: the trusted part of the chain, then the peer. */
  forwardedFor: string
  proto: string
  host: string
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
  const chain = forwarded.for.flatMap((line) => line.split(',')).map((part) => plainAddress(part.trim()))
  const believed: string[] = [peer]
  for (const address of chain.reverse()) {
    if (isIP(address) === 0) break
    believed.push(address)
    if (!isTrusted(address)) break
  }
  return { address: ownText(believed.at(-1) ?? peer), forwardedFor: believed.reverse().join(', ') }
}

function readOrigin(forwarded: ForwardedHeaders, own: Readonly<{ proto: string; host: string }>) {
  const [proto] = forwarded.proto
  const [host] = forwarded.host
  return {
    proto: forwarded.proto.length === 1 && (proto === 'http' || proto === 'https') ? proto : own.proto,
    host: forwarded.host.length === 1 && host !== undefined && isHost(host) ? host : own.host,
  }
}
