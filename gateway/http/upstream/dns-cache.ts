import dns from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { guarded } from '../../base/fault/guarded.ts'
import { createEntries, dropOldest, type Entries, type Entry } from './dns-entries.ts'
import { type Address, createResolver, type Resolver } from './resolver.ts'

export type DnsCacheOptions = Readonly<{
  cacheMs: number
  maxStaleMs?: number
  timeoutMs?: number
  /** Whether tenants choose the names, which may then never resolve. */
  isForeign?: boolean
  resolver?: Resolver
  monotonicMs?: () => number
  onState?: (name: string, failure: string | undefined) => void
}>

export type DnsCache = Readonly<{
  lookup: LookupFunction
  /** As `lookup`, for a name of that organization. */
  lookupFor: (owner: string) => LookupFunction
  lookupInOrder: LookupFunction
  /** A number that grows with each change. Refreshes a stale answer in the background. */
  versionOf: (name: string, owner?: string) => number
  includes: (name: string, address: string | undefined) => boolean
  oldestStaleMs: () => number
}>

type Waiting = (error: NodeJS.ErrnoException | null) => void

/** A lookup under way: slow once no connection waits for fresher addresses, late beyond its time limit. */
type Lookup = { waiting: Waiting[]; isSlow: boolean; isLate: boolean }

/**
 * The address may have moved to another machine. So a connection waits as long as a reachable name server takes before
 * it uses a stale answer (the client response timer of RFC 8767, section 5).
 */
const clientResponseMs = 50

export function createDnsCache(options: DnsCacheOptions): DnsCache {
  const entries = createEntries(options)
  const failures = createFailures(options)
  const lookups = createLookups(entries, failures, options)
  const lookupBy =
    (order: (entry: Entry) => readonly Address[], owner = ''): LookupFunction =>
    (name, { family, all }, callback) =>
      findAddresses(name, { entries, failures, lookups, owner }, (error, entry) => {
        const addresses = entry ? order(entry).filter((each) => isOfFamily(each, family)) : []
        const [first] = addresses
        if (!first) callback(error ?? failure('ENOTFOUND', name), [])
        else if (all === true) callback(null, addresses)
        else callback(null, first.address, first.family)
      })
  return {
    lookup: lookupBy(rotate),
    lookupFor: (owner) => lookupBy(rotate, owner),
    lookupInOrder: lookupBy(({ addresses }) => addresses),
    versionOf: (name, owner = '') => {
      const known = entries.find(name)
      if (!known) return 0
      entries.noteUse(known)
      if (entries.isOld(known)) lookups.ask(name, owner, () => undefined)
      return known.version
    },
    includes: (name, address) => {
      const known = entries.find(name)
      return !known || known.addresses.some((held) => held.address === address)
    },
    oldestStaleMs: () => entries.oldestMs(failures.names()),
  }
}

type Failures = Readonly<{
  note: (name: string, reason: string | undefined) => void
  reasonOf: (name: string) => string | undefined
  names: () => readonly string[]
}>

function createFailures({ onState = () => undefined }: DnsCacheOptions): Failures {
  const failing = new Map<string, string>()
  return {
    note: (name, reason) => {
      const isNews = failing.has(name) !== (reason !== undefined)
      failing.delete(name)
      if (reason !== undefined) failing.set(name, reason)
      dropOldest(failing)
      if (isNews) onState(name, reason)
    },
    reasonOf: (name) => failing.get(name),
    names: () => [...failing.keys()],
  }
}

type Lookups = Readonly<{
  ask: (name: string, owner: string, onAnswer: Waiting) => void
  underWay: (name: string, owner: string) => Lookup | undefined
}>

function createLookups(
  entries: Entries,
  failures: Failures,
  { cacheMs, timeoutMs = 2_000, isForeign = false, resolver = createResolver() }: DnsCacheOptions,
): Lookups {
  // By owner, too: a question that waits behind an organization's silent names must not be the one of another.
  const lookups = new Map<string, Lookup>()
  const retrying = new Set<string>()
  const ask: Lookups['ask'] = (name, owner, onAnswer) => {
    const key = keyOf(name, owner)
    const others = lookups.get(key)
    if (others) {
      if (others.isLate) onAnswer(failure(timedOut, name))
      else others.waiting.push(onAnswer)
      return
    }
    const lookup: Lookup = { waiting: [onAnswer], isSlow: false, isLate: false }
    lookups.set(key, lookup)
    const giveUp = (): void => {
      lookup.isLate = true
      failures.note(name, timedOut)
      tell(lookup, failure(timedOut, name))
    }
    const noteSlow = (): void => {
      lookup.isSlow = true
    }
    const timers = [afterPoll(clientResponseMs, noteSlow), setTimeout(guarded('upstream', giveUp), timeoutMs)]
    for (const timer of timers) timer.unref()
    const isDoubtful = failures.reasonOf(name) === timedOut
    resolver.resolve(name, { isDoubtful, owner }, (error, addresses) => {
      for (const timer of timers) clearTimeout(timer)
      lookups.delete(key)
      const isGood = !error && addresses.length > 0
      if (isGood) {
        entries.take(name, addresses, lookup.isSlow)
        failures.note(name, undefined)
      } else {
        if (entries.noteAsked(name) && !isForeign) retry(name, owner)
        if (!lookup.isLate) failures.note(name, error?.code ?? 'ENOTFOUND')
      }
      tell(lookup, isGood ? null : (error ?? failure('ENOTFOUND', name)))
    })
  }
  /**
   * Retries failed names without a request: the database may need no new connection for hours, and the end of a failure
   * must still be seen.
   */
  const retry = (name: string, owner: string): void => {
    if (retrying.has(name)) return
    retrying.add(name)
    const again = (): void => {
      retrying.delete(name)
      const entry = entries.find(name)
      if (entry && failures.reasonOf(name) !== undefined && entries.isInUse(entry)) ask(name, owner, () => undefined)
    }
    setTimeout(guarded('upstream', again), cacheMs).unref()
  }
  return { ask, underWay: (name, owner) => lookups.get(keyOf(name, owner)) }
}

/** No name of a host has a space. */
const keyOf = (name: string, owner: string): string => `${owner} ${name}`

function tell(lookup: Lookup, error: NodeJS.ErrnoException | null): void {
  for (const answer of lookup.waiting.splice(0)) answer(error)
}

type Found = (error: NodeJS.ErrnoException | null, entry?: Entry) => void

type DnsCacheParts = Readonly<{ entries: Entries; failures: Failures; lookups: Lookups; owner: string }>

/**
 * Answers with known addresses at once, or after a short wait for fresher ones. First addresses are awaited up to the
 * time-out.
 */
function findAddresses(name: string, { entries, failures, lookups, owner }: DnsCacheParts, answer: Found): void {
  const known = entries.find(name)
  if (known) entries.noteUse(known)
  const hasAddresses = known !== undefined && known.addresses.length > 0
  // Only the first connections wait: with a silent or slow name server each one would.
  const isSlow =
    failures.reasonOf(name) !== undefined || known?.isSlow === true || lookups.underWay(name, owner)?.isSlow === true
  let isAnswered = false
  const finish = (error: NodeJS.ErrnoException | null): void => {
    if (isAnswered) return
    isAnswered = true
    clearTimeout(patience)
    const entry = entries.find(name)
    if (entry && entry.addresses.length > 0) answer(null, entry)
    else answer(error ?? failure(timedOut, name))
  }
  const finishGuarded = guarded('upstream', finish)
  const finishSoon = (error: NodeJS.ErrnoException | null): void => process.nextTick(finishGuarded, error)
  const waits = hasAddresses && entries.isOld(known) && !isSlow
  // Before the wait begins: with its end the lookup is slow.
  if (!hasAddresses || entries.isOld(known)) lookups.ask(name, owner, finishSoon)
  const patience = waits ? afterPoll(clientResponseMs, () => finish(null)) : undefined
  if (hasAddresses && !patience) finishSoon(null)
}

/** Calls back after that time; an answer that arrived while the event loop was busy goes first. */
const afterPoll = (delayMs: number, work: () => void): NodeJS.Timeout =>
  setTimeout(
    guarded('upstream', () => void setImmediate(guarded('upstream', work))),
    delayMs,
  )

/**
 * Replaces `dns.lookup`, so that the drivers of PostgreSQL and Redis, `fetch` and trace exporters use this cache.
 * Returns a function that restores it.
 */
export function lookUpEverywhere(names: DnsCache): () => void {
  const lookup = (name: string, ...rest: unknown[]): void => {
    const callback = rest.at(-1) as Parameters<LookupFunction>[2] // as Node itself requires
    const options = rest.length > 1 ? rest[0] : {}
    const wanted = (typeof options === 'number' ? { family: options } : options) as Parameters<LookupFunction>[1]
    if (typeof name !== 'string' || name === '' || isIP(name) !== 0)
      (systemLookup as unknown as (...all: unknown[]) => void)(name, ...rest)
    else names.lookupInOrder(name, wanted, callback)
  }
  const own = lookup as unknown as typeof dns.lookup // its overloads are told apart above
  dns.lookup = own
  return () => {
    if (dns.lookup === own) dns.lookup = systemLookup
  }
}

const systemLookup = dns.lookup

/** Rotates the addresses of the family that the system prefers; the others stay behind them. */
function rotate(entry: Entry): readonly Address[] {
  const { addresses } = entry
  const preferred = addresses.filter(({ family }) => family === addresses[0]?.family)
  const others = addresses.filter(({ family }) => family !== addresses[0]?.family)
  const first = entry.rotation++ % preferred.length
  return [...preferred.slice(first), ...preferred.slice(0, first), ...others]
}

const timedOut = 'ETIMEOUT'

const failure = (code: string, name: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`getaddrinfo ${code} ${name}`), { code, syscall: 'getaddrinfo', hostname: name })

const isOfFamily = (address: Address, family: number | string | undefined): boolean =>
  !family || family === address.family || family === `IPv${address.family}`
