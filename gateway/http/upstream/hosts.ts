import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import type { Address } from './resolver.ts'

export type Hosts = Readonly<{
  /** The addresses that `/etc/hosts` gives the name. */
  find: (name: string) => readonly Address[] | undefined
  /** The names to ask for in turn, by the search list of `resolv.conf`. */
  expand: (name: string) => readonly string[]
}>

/** As long as an answer of a name server is fresh by default (`dns.cacheMs`). */
const rereadMs = 5_000

/** Both files are small and local; a lookup every few seconds may wait for them. */
export function createReadHosts(
  read: (file: string) => string = (file) => readFileSync(file, 'utf8'),
  monotonicMs: () => number = () => performance.now(),
): () => Hosts {
  let held: Hosts | undefined
  let readAtMs = 0
  return () => {
    if (held && monotonicMs() - readAtMs < rereadMs) return held
    const names = parseHosts(readOr(read, '/etc/hosts'))
    const search = parseSearch(readOr(read, '/etc/resolv.conf'))
    held = { find: (name) => names.get(withoutDot(name.toLowerCase())), expand: (name) => expand(name, search) }
    readAtMs = monotonicMs()
    return held
  }
}

/** A system without the file has none of its entries. */
function readOr(read: (file: string) => string, file: string): string {
  try {
    return read(file)
  } catch {
    return ''
  }
}

const withoutDot = (name: string): string => (name.endsWith('.') ? name.slice(0, -1) : name)

const linesOf = (text: string, comment: RegExp): readonly (readonly string[])[] =>
  text.split('\n').map((line) => line.replace(comment, '').trim().split(/\s+/))

/** hosts(5) */
function parseHosts(text: string): ReadonlyMap<string, readonly Address[]> {
  const found = new Map<string, Address[]>()
  for (const [address = '', ...names] of linesOf(text, /#.*/)) {
    const family = isIP(address)
    if (family === 0) continue
    for (const name of names) {
      const key = name.toLowerCase()
      found.set(key, [...(found.get(key) ?? []), { address, family }])
    }
  }
  return found
}

type Search = Readonly<{ domains: readonly string[]; dots: number }>

/** resolv.conf(5): the last of `search` and `domain` counts, and `ndots` is at most 15. */
function parseSearch(text: string): Search {
  let domains: readonly string[] = []
  let dots = 1
  for (const [word, ...rest] of linesOf(text, /[#;].*/)) {
    if (word === 'search') domains = rest
    else if (word === 'domain') domains = rest.slice(0, 1)
    else if (word === 'options')
      for (const option of rest) {
        const [, count] = /^ndots:(\d{1,3})$/.exec(option) ?? []
        if (count !== undefined) dots = Math.min(15, Number(count))
      }
  }
  return { domains: domains.map(withoutDot).filter((domain) => domain !== ''), dots }
}

function expand(name: string, { domains, dots }: Search): readonly string[] {
  if (name.endsWith('.')) return [withoutDot(name)]
  const searched = domains.map((domain) => `${name}.${domain}`)
  return name.split('.').length > dots ? [name, ...searched] : [...searched, name]
}
