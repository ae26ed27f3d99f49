import { until } from '../support/gateway.ts'

/**
 * Resolves once a gateway has heard each change of the database from before this call. An answer with new facts proves less:
 * on a busy machine they may have been read without a notification.
 */
export async function untilHeard(admin: string): Promise<void> {
  const sinceMs = performance.now()
  await until(async () => {
    const askedMs = performance.now()
    const text = await (await fetch(`${admin}/metrics`)).text()
    const [, lag] = /^sallyport_invalidation_lag_seconds\{.*source="postgres".*\} (\S+)$/m.exec(text) ?? []
    return lag !== undefined && askedMs - Number(lag) * 1_000 > sinceMs
  }, 'that all changes were heard')
}
