import { Gauge, type Registry } from 'prom-client'

/** How upstreams are reached. */
export type AddressMetrics = Readonly<{
  /** `address` is host and port of the configuration. */
  noteAddress: (upstream: string, address: string, isUp: boolean) => void
  noteUpstreamTlsReload: (upstream: string, isGood: boolean) => void
}>

export function createAddressMetrics(registers: Registry[]): AddressMetrics {
  const up = new Gauge({
    name: 'sallyport_upstream_address_up',
    help: '0 while an address of an upstream fails: by requests in a row, or by its health checks.',
    labelNames: ['upstream', 'address'],
    registers,
  })
  const reload = new Gauge({
    name: 'sallyport_upstream_tls_reload_success',
    help: '1 while the files of an upstream’s certificates are those in use, 0 while a bad one is waiting.',
    labelNames: ['upstream'],
    registers,
  })
  return {
    noteAddress: (upstream, address, isUp) => up.set({ upstream, address }, isUp ? 1 : 0),
    noteUpstreamTlsReload: (upstream, isGood) => reload.set({ upstream }, isGood ? 1 : 0),
  }
}
