// Addresses of peers, and the blocks that they belong to.

/** A dual-stack listener reports IPv4 peers as ::ffff:192.0.2.1. */
const mappedPattern = /^::ffff:(?=\d+\.)/i

/** The network that one client controls: its IPv4 address, or the /64 of its IPv6 address (RFC 6177). */
export function readNetwork(address: string): string {
  if (!address.includes(':')) return address
  if (mappedPattern.test(address)) return address.slice(7)
  const [plain = ''] = address.split('%')
  const [before, after] = plain.split('::').map((part) => part.split(':').filter((group) => group !== ''))
  const left = before ?? []
  const right = after ?? []
  const missing = 8 - left.length - right.length - (right.at(-1)?.includes('.') ? 1 : 0)
  const zeros = after ? Array.from({ length: Math.max(0, missing) }, () => '0') : []
  const groups = [...left, ...zeros, ...right].slice(0, 4)
  return groups.map((group) => Number.parseInt(group, 16).toString(16)).join(':')
}
