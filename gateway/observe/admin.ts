import type { Exchange } from '../engine/exchange.ts'
import type { Metrics } from './metrics.ts'

/** What `/readyz` asks; each check rejects or throws when its part is not ready. */
export type ReadinessCheck = Readonly<{ name: string; check: () => void | Promise<void> }>

export type AdminPages = Readonly<{
  metrics: Metrics
  readiness: readonly ReadinessCheck[]
  publicKeys: () => unknown
}>

type Page = Readonly<{ status: number; contentType: string; body: string }>

/** Serves the admin listener: liveness, readiness, metrics and the public keys of the identity header. */
export const createAdmin = (pages: AdminPages) => (exchange: Exchange) => {
  const isRead = exchange.method === 'GET' || exchange.method === 'HEAD'
  const page = isRead ? render(exchange.target.split('?')[0] ?? '', pages) : json(405, { error: 'method not allowed' })
  page
    .catch((error: unknown) => json(500, { error: error instanceof Error ? error.name : 'unknown' }))
    .then(({ status, contentType, body }) =>
      exchange.answer({ status, headers: ['content-type', contentType, 'cache-control', 'no-store'] }, body),
    )
    .catch(() => exchange.destroy())
}

async function render(path: string, { metrics, readiness, publicKeys }: AdminPages): Promise<Page> {
  switch (path) {
    case '/healthz':
      return json(200, { status: 'alive' })
    case '/readyz':
      return renderReadiness(readiness)
    case '/metrics':
      return { status: 200, contentType: metrics.contentType, body: await metrics.text() }
    case '/.well-known/jwks.json':
      return json(200, publicKeys())
    default:
      return json(404, { error: 'not found', pages: ['/healthz', '/readyz', '/metrics', '/.well-known/jwks.json'] })
  }
}

const json = async (status: number, value: unknown): Promise<Page> => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
})

async function renderReadiness(readiness: readonly ReadinessCheck[]): Promise<Page> {
  const checks = await Promise.all(
    readiness.map(async ({ name, check }) => {
      try {
        await check()
        return [name, 'ok'] as const
      } catch {
        // Which part it is says enough here; why is in the log.
        return [name, 'failing'] as const
      }
    }),
  )
  const isReady = checks.every(([, state]) => state === 'ok')
  return json(isReady ? 200 : 503, { status: isReady ? 'ready' : 'unavailable', checks: Object.fromEntries(checks) })
}
