import type { ListenerOptions } from '../../gateway/http/engine.ts'

/** Options of a listener on a free port of loopback, with limits too wide for a test to meet by chance. */
export const listenerOptions: ListenerOptions = {
  host: '127.0.0.1',
  port: 0,
  headersTimeoutMs: 20_000,
  keepAliveMs: 95_000,
  bodyIdleTimeoutMs: 30_000,
  minBodyBytesPerSecond: 0,
  clientIdleTimeoutMs: 60_000,
  minResponseBytesPerSecond: 0,
  maxConnections: 1_000,
  onDropped: () => undefined,
  onMalformed: () => undefined,
  onFault: () => undefined,
}
