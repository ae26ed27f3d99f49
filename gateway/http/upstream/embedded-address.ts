import { isIPv6 } from 'node:net'

/** Forms of IPv6 that embed IPv4: their prefix, the positions of the four bytes, and the zeros behind them. */
const forms: readonly Readonly<{
  begins: readonly number[]
  at: readonly number[]
  zeroFrom?: 11 | 12 | 13
  isInverted?: true
}>[] = [
  // IPv4-mapped and IPv4-compatible (RFC 4291 2.5.5), IPv4-translated (RFC 2765 2.1).
  { begins: [0, 0, 0, 0, 0, 0xffff], at: [12, 13, 14, 15] },
  { begins: [0, 0, 0, 0, 0, 0], at: [12, 13, 14, 15] },
  { begins: [0, 0, 0, 0, 0xffff, 0], at: [12, 13, 14, 15] },
  // NAT64 (RFC 6052 2.1).
  { begins: [0x64, 0xff9b, 0, 0, 0, 0], at: [12, 13, 14, 15] },
  // NAT64 of a network's own (RFC 8215), whose prefix may have any of the lengths of RFC 6052 2.2.
  { begins: [0x64, 0xff9b, 1], at: [6, 7, 9, 10], zeroFrom: 11 },
  { begins: [0x64, 0xff9b, 1], at: [7, 9, 10, 11], zeroFrom: 12 },
  { begins: [0x64, 0xff9b, 1], at: [9, 10, 11, 12], zeroFrom: 13 },
  { begins: [0x64, 0xff9b, 1], at: [12, 13, 14, 15] },
  // 6to4 (RFC 3056 2), and Teredo, which holds the client's address with every bit turned (RFC 4380 4).
  { begins: [0x2002], at: [2, 3, 4, 5] },
  { begins: [0x2001, 0], at: [12, 13, 14, 15], isInverted: true },
]

export function embeddedAddresses(address: string): readonly string[] {
  if (!isIPv6(address)) return []
  const groups = readGroups(address)
  if (groups.slice(0, 7).every((group) => group === 0) && (groups[7] ?? 0) <= 1) return []
  const bytes = groups.flatMap((group) => [group >> 8, group & 0xff])
  const held = forms
    .filter(
      ({ begins, zeroFrom = 16 }) => begins.every((group, index) => groups[index] === group) && isZero(bytes, zeroFrom),
    )
    .map(({ at, isInverted }) => at.map((place) => (bytes[place] ?? 0) ^ (isInverted ? 0xff : 0)).join('.'))
  // With a prefix of several possible lengths, zeros are the end of another form.
  const meant = held.filter((each) => each !== '0.0.0.0')
  return meant.length > 0 ? meant : held
}

const isZero = (bytes: readonly number[], from: number): boolean => bytes.slice(from).every((byte) => byte === 0)

export function readGroups(address: string): readonly number[] {
  const [head = '', tail] = address.split('::')
  const before = readPart(head)
  if (tail === undefined) return before
  const after = readPart(tail)
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

const readPart = (text: string): readonly number[] =>
  text === ''
    ? []
    : text.split(':').flatMap((group) => {
        if (!group.includes('.')) return [Number.parseInt(group, 16)]
        const [first = 0, second = 0, third = 0, fourth = 0] = group.split('.').map(Number)
        return [first * 256 + second, third * 256 + fourth]
      })
