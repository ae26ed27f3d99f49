import type { RecentRequest } from '../gateway/listeners/admin/history/recent-requests.ts'
import type { AdminPage, AdminPages, AdminState } from '../gateway/listeners/admin/listener.ts'
import { type Document, renderDocument } from './document.ts'
import { listExchanges } from './exchanges.ts'
import { readQuestion } from './explain.ts'
import { toText } from './html.ts'
import { type Parts, renderParts, renderWhole } from './page.ts'
import { type ConsoleQuery, readConsoleQuery, toHistoryQuery } from './query.ts'
import { renderRunbook } from './runbook.ts'
import { consoleScript } from './script.ts'
import { noTable, type SnapshotSources, takeSnapshot } from './snapshot.ts'
import { judgeUpstreams, type UpstreamAddress } from './upstreams.ts'
import { readWhoMayQuery, readWords, renderWhoMay, type WhoMayPage } from './who-may.ts'

export type ConsoleSources = SnapshotSources &
  Pick<AdminState, 'whoMay'> &
  Readonly<{
    replica: string
    version: string
    upstreams: readonly UpstreamAddress[]
    issuers: readonly string[]
    isAudited: boolean
    runbook: string | undefined
  }>

export function createConsole(sources: ConsoleSources): AdminPages['console'] {
  const look = async (query: ConsoleQuery): Promise<Parts> => {
    const { replica, version, upstreams, issuers, isAudited } = sources
    const seen = await takeSnapshot(sources, (now) => toHistoryQuery(query, now))
    const health = judgeUpstreams(upstreams, seen.history, seen.clusters, seen.now)
    return { ...seen, replica, version, query, issuers, isAudited, upstreams: health }
  }
  return (path, parameters) => {
    switch (path) {
      case '/':
        return look(readConsoleQuery(parameters)).then((parts) => renderPage(parts, parameters))
      case '/console/live':
        return look(readConsoleQuery(parameters)).then((parts) =>
          toPage({
            text: toText(renderParts(parts)),
            contentSecurityPolicy: "default-src 'none'; frame-ancestors 'none'",
          }),
        )
      case '/console/requests.json':
        return look(readConsoleQuery(parameters)).then(({ history }) => toJson(history.requests))
      case '/console/exchanges.json':
        return listExchanges(sources.exchanges, parameters)
      case '/console/who-may':
        return answerWhoMay(sources, parameters).then(toPage)
      case '/console/runbook':
        return Promise.resolve(toPage(renderRunbook(sources.runbook)))
      case '/console':
        return Promise.resolve(moved)
      default:
        return undefined
    }
  }
}

async function answerWhoMay(
  { policies, table, whoMay }: ConsoleSources,
  parameters: URLSearchParams,
): Promise<Document> {
  const words = readWords(parameters)
  const query = readWhoMayQuery(words)
  const [{ choices }, found] = await Promise.all([
    policies()
      .then(({ live }) => table(live.fingerprint))
      .catch(() => noTable),
    typeof query === 'object'
      ? whoMay(query).catch((): WhoMayPage => 'Not known: the directory does not list its members.')
      : query,
  ])
  return renderWhoMay(choices.methods, words, found)
}

function renderPage(parts: Parts, parameters: URLSearchParams): AdminPage {
  const question = readQuestion(parameters)
  const body = renderWhole(parts, {
    search: parameters.get('q') ?? '',
    question,
    explained: question && parts.table.explain(question),
  })
  return toPage(renderDocument({ title: 'Sallyport console', body, script: consoleScript, isServed: true }))
}

const toPage = ({ text, contentSecurityPolicy }: Document): AdminPage => ({
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body: text,
  headers: ['content-security-policy', contentSecurityPolicy, 'referrer-policy', 'no-referrer'],
})

const toJson = (requests: readonly RecentRequest[]): AdminPage => ({
  status: 200,
  contentType: 'application/json; charset=utf-8',
  body: `${JSON.stringify({ requests: requests.map(({ timeMs, ...request }) => ({ time: new Date(timeMs).toISOString(), ...request })) })}\n`,
})

const moved: AdminPage = { status: 308, contentType: 'text/plain; charset=utf-8', body: '', headers: ['location', '/'] }
