import { Counter, type Registry } from 'prom-client'

export type FaultMetrics = Readonly<{ countFault: (place: string) => void }>

/** What a callback threw: a bug that ended one connection or one piece of work, and not the process. */
export function createFaultMetrics(registers: Registry[]): FaultMetrics {
  const faults = new Counter({
    name: 'sallyport_callback_faults_total',
    help: 'Callbacks of sockets, timers and connections that threw; each ended its own connection or work.',
    labelNames: ['place'],
    registers,
  })
  return { countFault: (place) => faults.inc({ place }) }
}
