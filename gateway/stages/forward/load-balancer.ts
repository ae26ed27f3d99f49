import type { Attempt, LoadBalancer } from '../locate/upstream.ts'

export type OutlierRules = Readonly<{
  failures: number
  /** The first ejection lasts this long, and each further one twice as long, up to the longest. */
  ejectMs: number
  longestEjectMs: number
  ejectPercent: number
}>

export type BalancerOptions = Readonly<{
  origins: readonly string[]
  rules: OutlierRules
  monotonicMs: () => number
  onChange: (origin: string, isUp: boolean, why: 'requests' | 'health') => void
}>

export type HealthAwareBalancer = LoadBalancer &
  Readonly<{
    noteHealth: (origin: string, isHealthy: boolean) => void
  }>

export function createLoadBalancer({ origins, rules, monotonicMs, onChange }: BalancerOptions): HealthAwareBalancer {
  const addresses = origins.map((origin) => new Address(origin))
  const most = Math.min(origins.length - 1, Math.max(1, Math.floor((origins.length * rules.ejectPercent) / 100)))
  let cursor = 0

  const leastBusy = (candidates: readonly Address[]): Address | undefined => {
    cursor = (cursor + 1) % addresses.length
    const inTurn = [...candidates.slice(cursor % candidates.length), ...candidates.slice(0, cursor % candidates.length)]
    return inTurn.reduce<Address | undefined>(
      (best, next) => (best && best.active <= next.active ? best : next),
      undefined,
    )
  }
  const usable = (isRepeatable: boolean, tried: readonly Attempt[] = []): readonly Address[] => {
    const nowMs = monotonicMs()
    const isTried = (address: Address): boolean => tried.some(({ origin }) => origin === address.origin)
    return addresses.filter((address) => !isTried(address) && address.isUsable(nowMs, isRepeatable))
  }
  const mayEject = (): boolean => addresses.filter(({ isUnavailable }) => isUnavailable).length < most

  const change: Change = (address, why, work) => {
    const wasUp = address.isUp(rules)
    work()
    const isUp = address.isUp(rules)
    if (isUp !== wasUp) onChange(address.origin, isUp, why)
  }
  const noteFailure = (address: Address, isTrial: boolean): void => {
    address.failures += 1
    if (isTrial || (!address.isEjected && address.failures >= rules.failures && mayEject()))
      address.eject(monotonicMs(), rules)
  }
  const begin = (address: Address): Attempt => beginAttempt(address, change, noteFailure)
  const [only, ...others] = addresses
  const everyAttempt = only && others.length === 0 ? beginAlways(only, change) : undefined
  return {
    pick: (isRepeatable) => {
      if (everyAttempt) return everyAttempt
      const candidates = usable(isRepeatable)
      // If all addresses fail, any of them is tried: their state may be out of date, and a refusal would help no
      // client.
      const chosen = leastBusy(candidates.length > 0 ? candidates : addresses)
      if (!chosen) throw new Error('an upstream has at least one address')
      return begin(chosen)
    },
    pickOther: (tried) => {
      const other = leastBusy(usable(false, tried))
      return other && begin(other)
    },
    noteHealth: (origin, isHealthy) => {
      const address = addresses.find((address) => address.origin === origin)
      if (address)
        change(address, 'health', () => {
          address.isHealthy = isHealthy
        })
    },
  }
}

type Change = (address: Address, why: 'requests' | 'health', work: () => void) => void

type NoteFailure = (address: Address, isTrial: boolean) => void

function beginAttempt(address: Address, change: Change, noteFailure: NoteFailure): Attempt {
  address.active += 1
  const isTrial = address.isEjected
  if (isTrial) address.isHalfOpen = true
  let isOver = false
  const endTrial = (): void => {
    if (isTrial) address.isHalfOpen = false
  }
  return {
    origin: address.origin,
    answered: () => {
      endTrial()
      change(address, 'requests', () => address.restore())
    },
    failed: () => {
      endTrial()
      change(address, 'requests', () => noteFailure(address, isTrial))
    },
    end: () => {
      if (isOver) return
      isOver = true
      endTrial()
      address.active -= 1
    },
  }
}

/** An upstream with one address is always tried, so all requests share one attempt and none is allocated. */
const beginAlways = (address: Address, change: Change): Attempt => ({
  origin: address.origin,
  answered: () => {
    if (address.failures > 0) change(address, 'requests', () => address.restore())
  },
  failed: () =>
    change(address, 'requests', () => {
      address.failures += 1
    }),
  end: undefined,
})

class Address {
  readonly origin: string
  active = 0
  failures = 0
  isHealthy = true
  isHalfOpen = false
  #ejections = 0
  #ejectedUntilMs = 0
  #ejectedForMs = 0

  constructor(origin: string) {
    this.origin = origin
  }

  get isEjected(): boolean {
    return this.#ejections > 0
  }

  get isUnavailable(): boolean {
    return this.isEjected || !this.isHealthy
  }

  isUp({ failures }: Pick<OutlierRules, 'failures'>): boolean {
    return !this.isUnavailable && this.failures < failures
  }

  /**
   * After an ejection, the first trial is for a request that can be repeated elsewhere. Other requests must wait twice
   * as long.
   */
  isUsable(nowMs: number, isRepeatable: boolean): boolean {
    if (!this.isHealthy) return false
    if (!this.isEjected) return true
    const trialFromMs = this.#ejectedUntilMs + (isRepeatable ? 0 : this.#ejectedForMs)
    return nowMs >= trialFromMs && !this.isHalfOpen
  }

  eject(nowMs: number, { ejectMs, longestEjectMs }: OutlierRules): void {
    this.#ejectedForMs = Math.min(longestEjectMs, ejectMs * 2 ** this.#ejections)
    this.#ejectedUntilMs = nowMs + this.#ejectedForMs
    this.#ejections += 1
  }

  restore(): void {
    this.failures = 0
    this.#ejections = 0
  }
}
