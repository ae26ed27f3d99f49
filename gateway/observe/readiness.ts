/** What `/readyz` asks; each check rejects or throws when its part is not ready. */
export type ReadinessCheck = Readonly<{ name: string; check: () => void | Promise<void> }>

/** The state of each part, by the name of its check. */
export type Readiness = Readonly<Record<string, 'ok' | 'failing'>>

/** Asks every part at once; none can make the others wait for longer than itself. */
export async function checkReadiness(checks: readonly ReadinessCheck[]): Promise<Readiness> {
  const states = await Promise.all(
    checks.map(async ({ name, check }) => {
      try {
        await check()
        return [name, 'ok'] as const
      } catch {
        // Which part it is says enough here; why is in the log.
        return [name, 'failing'] as const
      }
    }),
  )
  return Object.fromEntries(states)
}

/** What several processes say together: a part is ready where no process finds it failing. */
export function combineReadiness(parts: readonly Readiness[]): Readiness {
  const combined: Record<string, 'ok' | 'failing'> = {}
  for (const part of parts)
    for (const [name, state] of Object.entries(part)) if (combined[name] !== 'failing') combined[name] = state
  return combined
}
