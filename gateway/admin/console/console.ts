import type { AdminPage, AdminPages } from '../listener.ts'
import { renderDocument } from './document.ts'
import { readQuestion } from './explain.ts'
import { toText } from './html.ts'
import { countTotals } from './overview.ts'
import { type Parts, renderParts, renderWhole } from './page.ts'
import { createRates } from './rates.ts'
import { consoleScript } from './script.ts'
import { type SnapshotSources, takeSnapshot } from './snapshot.ts'
import { countUpstreams, judgeUpstreams, type UpstreamAddress } from './upstreams.ts'

export type ConsoleSources = SnapshotSources &
  Readonly<{
    upstreams: readonly UpstreamAddress[]
    issuers: readonly string[]
    isAudited: boolean
  }>

/** The operator's page at `/`, and at `/console/live` the parts of it that move. It is read and changes nothing. */
export function createConsole(sources: ConsoleSources): AdminPages['console'] {
  const rates = createRates()
  const look = async (): Promise<Parts> => {
    const { upstreams, issuers, isAudited } = sources
    const seen = await takeSnapshot(sources)
    const { figures, table, now } = seen
    rates.note(now.getTime(), { ...countTotals(figures), ...countUpstreams(upstreams, table.destinations, figures) })
    return {
      ...seen,
      rates,
      issuers,
      isAudited,
      upstreams: judgeUpstreams(upstreams, table.destinations, figures, rates),
    }
  }
  return (path, parameters) => {
    switch (path) {
      case '/':
        return look().then((parts) => renderPage(parts, parameters))
      case '/console/live':
        return look().then((parts) => toPage(toText(renderParts(parts)), "default-src 'none'; frame-ancestors 'none'"))
      case '/console':
        return Promise.resolve(moved)
      default:
        return undefined
    }
  }
}

function renderPage(parts: Parts, parameters: URLSearchParams): AdminPage {
  const question = readQuestion(parameters)
  const body = renderWhole(parts, {
    search: parameters.get('q') ?? '',
    question,
    explained: question && parts.table.explain(question),
  })
  const document = renderDocument({ title: 'Sallyport console', body, script: consoleScript, isServed: true })
  return toPage(document.text, document.contentSecurityPolicy)
}

const toPage = (body: string, contentSecurityPolicy: string): AdminPage => ({
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body,
  headers: ['content-security-policy', contentSecurityPolicy, 'referrer-policy', 'no-referrer'],
})

const moved: AdminPage = { status: 308, contentType: 'text/plain; charset=utf-8', body: '', headers: ['location', '/'] }
