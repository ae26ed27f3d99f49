import { Counter, Gauge, type Registry } from 'prom-client'

/** How fresh the keys of issuers are. */
export type JwksMetrics = Readonly<{
  countJwksFetch: (issuer: string, outcome: 'ok' | 'failed') => void
  /** Calls back at each scrape. */
  watchJwksAge: (issuer: string, ageMs: () => number | undefined) => void
}>

export function createJwksMetrics(registers: Registry[]): JwksMetrics {
  const failures = new Counter({
    name: 'sallyport_jwks_fetch_failures_total',
    help: 'Failed fetches of an issuer’s keys.',
    labelNames: ['issuer'],
    registers,
  })
  const fetches = new Counter({
    name: 'sallyport_jwks_fetches_total',
    help: 'Fetches of an issuer’s keys that ended, by outcome: ok or failed.',
    labelNames: ['issuer', 'outcome'],
    registers,
  })
  const issuerUp = new Gauge({
    name: 'sallyport_jwks_issuer_up',
    help: 'Whether the last fetch of an issuer’s keys was good; absent before the first has ended.',
    labelNames: ['issuer'],
    registers,
  })
  const issuers: [issuer: string, ageMs: () => number | undefined][] = []
  new Gauge({
    name: 'sallyport_jwks_age_seconds',
    help: 'Time since the last good fetch of the keys of an issuer that are in use; absent while there are none.',
    labelNames: ['issuer'],
    registers,
    collect() {
      for (const [issuer, ageMs] of issuers) {
        const age = ageMs()
        if (age !== undefined) this.set({ issuer }, age / 1000)
      }
    },
  })
  return {
    countJwksFetch: (issuer, outcome) => {
      fetches.inc({ issuer, outcome })
      failures.inc({ issuer }, outcome === 'failed' ? 1 : 0)
      issuerUp.set({ issuer }, outcome === 'ok' ? 1 : 0)
    },
    watchJwksAge: (issuer, ageMs) => {
      issuers.push([issuer, ageMs])
    },
  }
}
