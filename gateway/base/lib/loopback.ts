export const isLoopback = (address: string): boolean =>
  address === 'localhost' || address === '::1' || /^(?:::ffff:)?127(\.\d{1,3}){3}$/.test(address)

/** On another machine's network whatever comes by http is from the first one that answers. */
export function isClearFarAway(address: string): boolean {
  if (!URL.canParse(address)) return false
  const { protocol, hostname } = new URL(address)
  return protocol === 'http:' && !isLoopback(hostname.replace(/^\[|\]$/g, ''))
}

/**
 * Whether a browser at this `Host` may see the console of a loopback listener. Any site can point one of its names at
 * 127.0.0.1 and then read the console as its own (DNS rebinding). It cannot own an address or `localhost`.
 */
export function isConsoleHost(host: string): boolean {
  const name = host.toLowerCase().replace(/:\d+$/, '')
  return isAddress(name) || name === 'localhost' || name.endsWith('.localhost')
}

/** No host name ends in a number or holds a colon (RFC 3986 3.2.2, RFC 1123 2.1). */
const isAddress = (name: string): boolean => /^\d{1,3}(\.\d{1,3}){3}$/.test(name) || /^\[[\da-f:.]+\]$/.test(name)
