/** Shorter than the idle time-out of common backends, so that fewer reuses meet a closing connection. */
const usualIdleMs = 4_000

/** What an upstream's word may take on its way, and the longest that is believed. */
const thresholdMs = 2_000
const maximumMs = 600_000

/** For how long a connection may be kept after an answer: a `Keep-Alive` line says how long its upstream does. */
export function readIdleMs(headers: readonly string[]): number {
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index] ?? ''
    if (name.length !== 10 || name.toLowerCase() !== 'keep-alive') continue
    const [, seconds] = /timeout=(\d{1,9})/i.exec(headers[index + 1] ?? '') ?? []
    if (seconds !== undefined) return Math.max(0, Math.min(Number(seconds) * 1_000 - thresholdMs, maximumMs))
  }
  return usualIdleMs
}
