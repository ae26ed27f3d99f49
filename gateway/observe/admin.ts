import type { Exchange } from '../engine/exchange.ts'
import type { MetricsSnapshot } from './combine-metrics.ts'
import type { Readiness } from './readiness.ts'

/** A JSON Web Key Set, as far as it matters here (RFC 7517 5). */
export type PublicKeys = Readonly<{ keys: readonly Readonly<{ kid?: string }>[] }>

/** What one process contributes to the admin pages, as plain data: workers send it to their primary. */
export type AdminFacts = Readonly<{
  readiness: () => Promise<Readiness>
  metrics: () => Promise<MetricsSnapshot>
  publicKeys: () => Promise<PublicKeys>
}>

/** What the admin listener shows, for one process or for a group of them: a new page begins here. */
export type AdminPages = Readonly<{
  readiness: () => Promise<Readiness>
  metrics: () => Promise<Readonly<{ contentType: string; text: string }>>
  publicKeys: () => Promise<PublicKeys>
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

async function render(path: string, pages: AdminPages): Promise<Page> {
  switch (path) {
    case '/healthz':
      return json(200, { status: 'alive' })
    case '/readyz':
      return renderReadiness(await pages.readiness())
    case '/metrics': {
      const { contentType, text } = await pages.metrics()
      return { status: 200, contentType, body: text }
    }
    case '/.well-known/jwks.json':
      return json(200, await pages.publicKeys())
    default:
      return json(404, { error: 'not found', pages: ['/healthz', '/readyz', '/metrics', '/.well-known/jwks.json'] })
  }
}

const json = async (status: number, value: unknown): Promise<Page> => ({
  status,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify(value)}\n`,
})

function renderReadiness(checks: Readiness): Promise<Page> {
  const isReady = Object.values(checks).every((state) => state === 'ok')
  return json(isReady ? 200 : 503, { status: isReady ? 'ready' : 'unavailable', checks })
}
