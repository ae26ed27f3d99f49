import { Resolver } from 'node:dns'
import { guarded } from '../../base/fault/guarded.ts'
import { createReadHosts } from './hosts.ts'
import type { Address, ResolveName } from './resolver.ts'

/** For all questions of a name together, so that a silent name server holds no slot for longer. */
const lookupMs = 2_000

/** A first server that is down leaves time for the second. The second try takes twice as long. */
const tryMs = 600

/** The wait for the other family of addresses (RFC 8305, section 3): some name servers never answer AAAA. */
const otherFamilyMs = 50

/** Answers that leave another domain of the search list to ask, as glibc does it. */
const absent: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ESERVFAIL', 'EREFUSED'])

/**
 * Asks the name servers of `resolv.conf`, on no thread and within a time-out. The system's lookup can be neither cancelled
 * nor bounded. Names of `/etc/hosts` and the search list hold here, too.
 */
export function createAskNameServers(readHosts = createReadHosts()): ResolveName {
  return (name, answer) => {
    const { find, expand } = readHosts()
    const known = find(name)
    if (known) return void setImmediate(guarded('upstream', () => answer(null, known)))
    // One for each lookup: cancelling ends all questions of a resolver, and a new one reads resolv.conf anew.
    const resolver = new Resolver({ timeout: tryMs, tries: 2 })
    const candidates = [...expand(name)]
    let isDone = false
    const finish = (code: string | undefined, addresses: readonly Address[] = []): void => {
      if (isDone) return
      isDone = true
      clearTimeout(timer)
      resolver.cancel()
      answer(code === undefined ? null : failure(code, name), addresses)
    }
    const timer = setTimeout(
      guarded('upstream', () => finish('ETIMEOUT')),
      lookupMs,
    )
    const askNext = (last: string): void => {
      const candidate = candidates.shift()
      if (candidate === undefined || isDone) finish(last)
      else
        askBothFamilies(resolver, candidate, (addresses, code) => {
          if (addresses.length > 0) finish(undefined, addresses)
          else if (absent.has(code)) askNext(code)
          else finish(code)
        })
    }
    askNext('ENOTFOUND')
  }
}

type Told = (addresses: readonly Address[], code: string) => void

/** IPv4 first: a host without it refuses such an address at once, and the connection goes on to the next one. */
function askBothFamilies(resolver: Resolver, name: string, tell: Told): void {
  const found: Readonly<Record<4 | 6, Address[]>> = { 4: [], 6: [] }
  let pending = 2
  let code = 'ENODATA'
  let impatience: NodeJS.Timeout | undefined
  const finish = (): void => {
    clearTimeout(impatience)
    pending = 0
    tell([...found[4], ...found[6]], code)
  }
  const take = (family: 4 | 6, error: NodeJS.ErrnoException | null, addresses: readonly string[]): void => {
    if (pending === 0) return
    pending -= 1
    // A time-out of one family says more than the absence of the other.
    if (error && (code === 'ENODATA' || !absent.has(error.code ?? ''))) code = error.code ?? code
    if (!error) found[family].push(...addresses.map((address) => ({ address, family })))
    if (pending === 0) finish()
    else if (found[family].length > 0) impatience = setTimeout(guarded('upstream', finish), otherFamilyMs)
  }
  const hear = (family: 4 | 6) =>
    guarded<NodeJS.ErrnoException | null, readonly string[] | undefined>('upstream', (error, addresses) =>
      take(family, error, addresses ?? []),
    )
  for (const family of [4, 6] as const) {
    const tellFamily = hear(family)
    try {
      if (family === 4) resolver.resolve4(name, tellFamily)
      else resolver.resolve6(name, tellFamily)
    } catch (error) {
      // A name that no question can hold, such as one with a label of 64 characters.
      setImmediate(guarded('upstream', () => take(family, error as NodeJS.ErrnoException, [])))
    }
  }
}

const failure = (code: string, name: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`resolve ${code} ${name}`), { code, syscall: 'resolve', hostname: name })
