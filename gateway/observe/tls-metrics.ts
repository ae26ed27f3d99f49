import { Gauge, type Registry } from 'prom-client'

/** How the certificates of listeners stand. */
export type TlsMetrics = Readonly<{
  noteTlsReload: (listener: string, isGood: boolean) => void
  /** When the certificate in use ends. */
  noteCertificate: (listener: string, notAfter: Date) => void
}>

/** Only for listeners on TLS. */
export function createTlsMetrics(registers: Registry[]): TlsMetrics {
  const reload = new Gauge({
    name: 'sallyport_tls_reload_success',
    help: '1 while the files of a listener’s certificates are those in use, 0 while a bad one is waiting.',
    labelNames: ['listener'],
    registers,
  })
  const notAfter = new Gauge({
    name: 'sallyport_tls_certificate_not_after_seconds',
    help: 'When the certificate that a listener presents ends, in seconds since 1970.',
    labelNames: ['listener'],
    registers,
  })
  return {
    noteTlsReload: (listener, isGood) => reload.set({ listener }, isGood ? 1 : 0),
    noteCertificate: (listener, date) => notAfter.set({ listener }, date.getTime() / 1_000),
  }
}
