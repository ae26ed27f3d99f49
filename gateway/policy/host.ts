/** The domain whose names with one further label a pattern such as `*.acme.example` stands for (RFC 6125 6.4.3). */
export const wildcardDomain = (pattern: string): string | undefined =>
  pattern.startsWith('*.') ? pattern.slice(2) : undefined

/** A host name without its first label; undefined if it has one label alone. */
export function domainOf(host: string): string | undefined {
  const dot = host.indexOf('.')
  return dot < 0 ? undefined : host.slice(dot + 1)
}

export const firstLabel = (host: string): string => host.split('.', 1)[0] ?? ''

/** Whether routes of `pattern` may serve the host; those of the exact host go before a wildcard's. */
export const coversHost = (pattern: string | undefined, host: string | undefined): boolean =>
  pattern === undefined ||
  pattern === host ||
  (host !== undefined && wildcardDomain(pattern) !== undefined && wildcardDomain(pattern) === domainOf(host))

/**
 * RFC 1035 2.3.1, and by RFC 1123 2.1 a digit may be first. A punycode label counts as it is written: decoders differ in
 * what they make of one.
 */
export const isLabel = (text: string): boolean => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(text)
