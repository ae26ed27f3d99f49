/** What `/readyz` asks; each check rejects or throws when its part is not ready, with `PartError` where it can say why. */
export type ReadinessCheck = Readonly<{ name: string; check: () => void | Promise<void> }>

/** `limited`: some requests fail for want of it, and another replica would do no better. */
export type PartState = 'ok' | 'limited' | 'failing'

/** The state of a part, with the cause where it is known. */
export type PartReport = PartState | Readonly<{ state: Exclude<PartState, 'ok'>; cause: string }>

/** The state of each part, by the name of its check. */
export type Readiness = Readonly<Record<string, PartReport>>

/** A part that is not ready; the message is shown to whoever may ask the admin listener. */
export class PartError extends Error {
  override readonly name = 'PartError'
  readonly state: Exclude<PartState, 'ok'>

  constructor(state: Exclude<PartState, 'ok'>, cause: string) {
    super(cause)
    this.state = state
  }
}

export const stateOf = (report: PartReport): PartState => (typeof report === 'string' ? report : report.state)

/** Whether requests may come: what is limited serves the others. */
export const isReady = (readiness: Readiness): boolean =>
  Object.values(readiness).every((report) => stateOf(report) !== 'failing')

/** Asks every part at once; none can make the others wait for longer than itself. */
export async function checkReadiness(checks: readonly ReadinessCheck[]): Promise<Readiness> {
  const states = await Promise.all(
    checks.map(async ({ name, check }): Promise<readonly [string, PartReport]> => {
      try {
        await check()
        return [name, 'ok']
      } catch (error) {
        if (error instanceof PartError) return [name, { state: error.state, cause: error.message }]
        // Which part it is says enough here; why is in the log.
        return [name, 'failing']
      }
    }),
  )
  return Object.fromEntries(states)
}

const severity: Readonly<Record<PartState, number>> = { ok: 0, limited: 1, failing: 2 }

/** What several processes say together: a part is as ready as the process that finds it worst. */
export function combineReadiness(parts: readonly Readiness[]): Readiness {
  const combined: Record<string, PartReport> = {}
  for (const part of parts)
    for (const [name, report] of Object.entries(part)) {
      const known = combined[name]
      if (known === undefined || severity[stateOf(report)] > severity[stateOf(known)]) combined[name] = report
    }
  return combined
}
