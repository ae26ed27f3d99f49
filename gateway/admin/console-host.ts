/**
 * Whether a browser at this `Host` may see the console of a loopback listener. Any site can point a name of its own at
 * 127.0.0.1 and read what answers there as if it were its own (DNS rebinding); an address or localhost it cannot have.
 */
export function isConsoleHost(host: string): boolean {
  const name = host.toLowerCase().replace(/:\d+$/, '')
  return isAddress(name) || name === 'localhost' || name.endsWith('.localhost')
}

/** Whether an address of a listener is reached from its own machine alone. */
export const isLoopback = (address: string): boolean =>
  address === 'localhost' || address === '::1' || /^127(\.\d{1,3}){3}$/.test(address)

/** No name of a host ends in a number, or holds a colon (RFC 3986 3.2.2, RFC 1123 2.1). */
const isAddress = (name: string): boolean => /^\d{1,3}(\.\d{1,3}){3}$/.test(name) || /^\[[\da-f:.]+\]$/.test(name)
