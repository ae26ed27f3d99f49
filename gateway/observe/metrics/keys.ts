import { Counter, Gauge, type Registry } from 'prom-client'

export type JwksMetrics = Readonly<{
  countJwksFetch: (issuer: string, outcome: 'ok' | 'failed') => void
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
    help: 'Completed fetches of an issuer’s keys, by outcome: ok or failed.',
    labelNames: ['issuer', 'outcome'],
    registers,
  })
  const issuerUp = new Gauge({
    name: 'sallyport_jwks_issuer_up',
    help: 'Whether the last fetch of an issuer’s keys succeeded; absent before the first one.',
    labelNames: ['issuer'],
    registers,
  })
  const issuers: [issuer: string, ageMs: () => number | undefined][] = []
  new Gauge({
    name: 'sallyport_jwks_age_seconds',
    help: 'Age of an issuer’s keys in use; absent without keys.',
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

export type TlsMetrics = Readonly<{
  noteTlsReload: (listener: string, isGood: boolean) => void
  noteCertificate: (listener: string, notAfter: Date) => void
}>

export function createTlsMetrics(registers: Registry[]): TlsMetrics {
  const reload = new Gauge({
    name: 'sallyport_tls_reload_success',
    help: 'Whether the last reload of a listener’s certificates succeeded.',
    labelNames: ['listener'],
    registers,
  })
  const notAfter = new Gauge({
    name: 'sallyport_tls_certificate_not_after_seconds',
    help: 'Expiry of a listener’s certificate, as a Unix timestamp.',
    labelNames: ['listener'],
    registers,
  })
  return {
    noteTlsReload: (listener, isGood) => reload.set({ listener }, isGood ? 1 : 0),
    noteCertificate: (listener, date) => notAfter.set({ listener }, date.getTime() / 1_000),
  }
}

export type ReloadMetrics = Readonly<{
  notePolicyReload: (isGood: boolean) => void
  notePolicyLoad: (at: Date) => void
  noteKeysReload: (isGood: boolean) => void
}>

export function createReloadMetrics(registers: Registry[]): ReloadMetrics {
  const policyReload = new Gauge({
    name: 'sallyport_policy_reload_success',
    help: 'Whether the last reload of the policy succeeded; if not, the previous policy stays in force.',
    registers,
  })
  const policyReloads = new Counter({
    name: 'sallyport_policy_reloads_total',
    help: 'Policy loads, by result, including the one at startup.',
    labelNames: ['outcome'],
    registers,
  })
  const policyLoaded = new Gauge({
    name: 'sallyport_policy_loaded_timestamp_seconds',
    help: 'Load time of the policy in force, as a Unix timestamp.',
    registers,
  })
  const keysReload = new Gauge({
    name: 'sallyport_identity_keys_reload_success',
    help: 'Whether the last reload of the identity header’s keys succeeded.',
    registers,
  })
  keysReload.set(1)
  return {
    notePolicyReload: (isGood) => {
      policyReload.set(isGood ? 1 : 0)
      policyReloads.inc({ outcome: isGood ? 'ok' : 'failed' })
    },
    notePolicyLoad: (at) => policyLoaded.set(at.getTime() / 1_000),
    noteKeysReload: (isGood) => keysReload.set(isGood ? 1 : 0),
  }
}
