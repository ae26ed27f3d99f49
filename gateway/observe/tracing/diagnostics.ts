import type { DiagLogger } from '@opentelemetry/api'
import type { Log } from '../log.ts'
import { redact } from '../redact.ts'

/** One line of the log in so long says that spans are lost. */
const complaintMs = 10_000
const detailLimit = 200

/** What the SDK complains of, of which only the words about an error are written down: it quotes whole answers. */
export function createDiagnostics(log: Log): DiagLogger {
  let toldAtMs = Number.NEGATIVE_INFINITY
  const complain = (text: unknown): void => {
    const nowMs = performance.now()
    if (nowMs - toldAtMs < complaintMs) return
    toldAtMs = nowMs
    log.warn({ error: describe(String(text)) }, 'spans could not be exported')
  }
  const ignore = (): void => undefined
  return { error: complain, warn: complain, info: ignore, debug: ignore, verbose: ignore }
}

function describe(text: string): Readonly<Record<string, string>> {
  try {
    const { name, message, code } = JSON.parse(text) as Record<string, unknown>
    const parts = { name, code, message }
    return Object.fromEntries(
      Object.entries(parts).flatMap(([key, value]) =>
        value === undefined ? [] : [[key, redact(String(value)).slice(0, detailLimit)]],
      ),
    )
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    return { message: redact(text).slice(0, detailLimit) }
  }
}
