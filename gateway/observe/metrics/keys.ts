import type { Meter } from './meter.ts'

export type JwksMetrics = Readonly<{
  countJwksFetch: (issuer: string, outcome: 'ok' | 'failed') => void
  watchJwksAge: (issuer: string, ageMs: () => number | undefined) => void
}>

export function createJwksMetrics({ counter, collect, flag }: Meter): JwksMetrics {
  const failures = counter('sallyport_jwks_fetch_failures_total', 'Failed fetches of an issuer’s keys.', 'issuer')
  const fetches = counter(
    'sallyport_jwks_fetches_total',
    'Completed fetches of an issuer’s keys, by outcome: ok or failed.',
    'issuer',
    'outcome',
  )
  const noteIssuer = flag(
    'sallyport_jwks_issuer_up',
    'Whether the last fetch of an issuer’s keys succeeded; absent before the first one.',
    'issuer',
  )
  const issuers: [issuer: string, ageMs: () => number | undefined][] = []
  collect('sallyport_jwks_age_seconds', 'Age of an issuer’s keys in use; absent without keys.', ['issuer'], (gauge) => {
    for (const [issuer, ageMs] of issuers) {
      const age = ageMs()
      if (age !== undefined) gauge.set({ issuer }, age / 1000)
    }
  })
  return {
    countJwksFetch: (issuer, outcome) => {
      fetches(issuer, outcome).count += 1
      failures(issuer).count += outcome === 'failed' ? 1 : 0
      noteIssuer(issuer, outcome === 'ok')
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

export function createTlsMetrics({ flag, gauge }: Meter): TlsMetrics {
  const noteTlsReload = flag(
    'sallyport_tls_reload_success',
    'Whether the last reload of a listener’s certificates succeeded.',
    'listener',
  )
  const notAfter = gauge(
    'sallyport_tls_certificate_not_after_seconds',
    'Expiry of a listener’s certificate, as a Unix timestamp.',
    'listener',
  )
  return { noteTlsReload, noteCertificate: (listener, date) => notAfter.set({ listener }, date.getTime() / 1_000) }
}

export type ReloadMetrics = Readonly<{
  notePolicyReload: (isGood: boolean) => void
  notePolicyLoad: (at: Date) => void
  noteKeysReload: (isGood: boolean) => void
}>

export function createReloadMetrics({ flag, count, gauge }: Meter): ReloadMetrics {
  const noteReload = flag(
    'sallyport_policy_reload_success',
    'Whether the last reload of the policy succeeded; if not, the previous policy stays in force.',
  )
  const countReload = count(
    'sallyport_policy_reloads_total',
    'Policy loads, by result, including the one at startup.',
    'outcome',
  )
  const policyLoaded = gauge(
    'sallyport_policy_loaded_timestamp_seconds',
    'Load time of the policy in force, as a Unix timestamp.',
  )
  const noteKeysReload = flag(
    'sallyport_identity_keys_reload_success',
    'Whether the last reload of the identity header’s keys succeeded.',
  )
  // A gateway whose keys can't be read at boot does not start.
  noteKeysReload(true)
  return {
    notePolicyReload: (isGood) => {
      noteReload(isGood)
      countReload(isGood ? 'ok' : 'failed')
    },
    notePolicyLoad: (at) => policyLoaded.set(at.getTime() / 1_000),
    noteKeysReload,
  }
}
