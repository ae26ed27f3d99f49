import { Counter, Gauge, type Registry } from 'prom-client'

/** What became of files that are followed while the gateway runs. */
export type ReloadMetrics = Readonly<{
  notePolicyReload: (isGood: boolean) => void
  notePolicyLoad: (at: Date) => void
  noteKeysReload: (isGood: boolean) => void
}>

export function createReloadMetrics(registers: Registry[]): ReloadMetrics {
  const policyReload = new Gauge({
    name: 'sallyport_policy_reload_success',
    help: '0 while the policy files are no good and the last good table goes on.',
    registers,
  })
  const policyReloads = new Counter({
    name: 'sallyport_policy_reloads_total',
    help: 'Policy tables that were taken or refused, the one of the start included.',
    labelNames: ['outcome'],
    registers,
  })
  const policyLoaded = new Gauge({
    name: 'sallyport_policy_loaded_timestamp_seconds',
    help: 'When the table in force was loaded.',
    registers,
  })
  const keysReload = new Gauge({
    name: 'sallyport_identity_keys_reload_success',
    help: '1 while the identity header’s key files are those in use, 0 while a bad one is waiting.',
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
