/** Rejects or throws when its part is not ready, with `PartError` if it knows the cause. */
export type ReadinessCheck = Readonly<{ name: string; check: () => void | Promise<void> }>

/** `limited`: some requests fail, and another replica would do no better. */
export type PartState = 'ok' | 'limited' | 'failing'

export type PartReport = PartState | Readonly<{ state: Exclude<PartState, 'ok'>; cause: string }>

export type Readiness = Readonly<Record<string, PartReport>>

export class PartError extends Error {
  override readonly name = 'PartError'
  readonly state: Exclude<PartState, 'ok'>

  constructor(state: Exclude<PartState, 'ok'>, cause: string) {
    super(cause)
    this.state = state
  }
}

export const stateOf = (report: PartReport): PartState => (typeof report === 'string' ? report : report.state)

export const isReady = (readiness: Readiness): boolean =>
  Object.values(readiness).every((report) => stateOf(report) !== 'failing')

export async function checkReadiness(checks: readonly ReadinessCheck[]): Promise<Readiness> {
  const states = await Promise.all(
    checks.map(async ({ name, check }): Promise<readonly [string, PartReport]> => {
      try {
        await check()
        return [name, 'ok']
      } catch (error) {
        if (error instanceof PartError) return [name, { state: error.state, cause: error.message }]
        return [name, 'failing']
      }
    }),
  )
  return Object.fromEntries(states)
}

const severity: Readonly<Record<PartState, number>> = { ok: 0, limited: 1, failing: 2 }

export function combineReadiness(parts: readonly Readiness[]): Readiness {
  const combined: Record<string, PartReport> = {}
  for (const part of parts)
    for (const [name, report] of Object.entries(part)) {
      const known = combined[name]
      if (known === undefined || severity[stateOf(report)] > severity[stateOf(known)]) combined[name] = report
    }
  return combined
}
