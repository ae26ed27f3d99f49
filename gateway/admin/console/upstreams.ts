import { amount, percent, state } from './format.ts'
import { type Html, html } from './html.ts'
import { renderLiveTable } from './live-table.ts'
import type { MetricsReader, Series } from './metrics-reader.ts'
import { isServerError } from './overview.ts'
import type { Rates } from './rates.ts'

export type UpstreamAddress = Readonly<{ name: string; origin: string }>

/** An upstream by what its routes answered: there is no probe of ours, requests alone tell. */
export type UpstreamHealth = UpstreamAddress &
  Readonly<{
    requests: number
    failed: number
    /** Undefined while there is no news of it. */
    isGood: boolean | undefined
    word: string
  }>

type Destinations = ReadonlyMap<string, string>

export function judgeUpstreams(
  upstreams: readonly UpstreamAddress[],
  destinations: Destinations,
  figures: MetricsReader,
  rates: Rates,
): readonly UpstreamHealth[] {
  return upstreams.map((upstream) => {
    const { name } = upstream
    const { requests, failed } = countUpstream(name, destinations, figures)
    const lately = {
      requests: rates.growth(countName(name, 'requests')),
      failed: rates.growth(countName(name, 'failed')),
    }
    return { ...upstream, requests, failed, ...judge(lately, { requests, failed }) }
  })
}

type Counts = Readonly<{ requests: number; failed: number }>

function judge(lately: Counts, ever: Counts): Pick<UpstreamHealth, 'isGood' | 'word'> {
  if (lately.failed > 0) return { isGood: false, word: `${amount(lately.failed)} × 5xx` }
  if (lately.requests > 0) return { isGood: true, word: 'answers' }
  // A page that was just opened knows no lately.
  if (ever.requests > 0 && ever.failed === ever.requests) return { isGood: false, word: 'nothing but 5xx' }
  return { isGood: undefined, word: 'quiet' }
}

export const renderUpstreams = (upstreams: readonly UpstreamHealth[]): Html =>
  renderLiveTable({
    id: 'upstreams',
    caption: 'Upstreams, by the answers of their routes',
    heads: ['Upstream', 'Address', 'Last 2 min', { number: 'Requests' }, { number: '5xx' }, { number: 'Share' }],
    rows: upstreams.map(
      ({ name, origin, isGood, word, requests, failed }) =>
        html`<tr><th scope="row">${name}</th><td><code>${origin}</code></td><td>${state(isGood, word)}</td><td class="number">${amount(requests)}</td><td class="number">${amount(failed)}</td><td class="number">${percent(failed, requests)}</td></tr>`,
    ),
    empty: 'None is configured.',
  })

/** For the rates: the counts of each upstream, by names that no other count has. */
export const countUpstreams = (
  upstreams: readonly UpstreamAddress[],
  destinations: Destinations,
  figures: MetricsReader,
): Readonly<Record<string, number>> =>
  Object.fromEntries(
    upstreams.flatMap(({ name }) => {
      const { requests, failed } = countUpstream(name, destinations, figures)
      return [
        [countName(name, 'requests'), requests],
        [countName(name, 'failed'), failed],
      ]
    }),
  )

const countName = (upstream: string, what: keyof Counts): string => `upstream ${what} ${upstream}`

function countUpstream(name: string, destinations: Destinations, figures: MetricsReader): Counts {
  const isIts = ({ route = '' }: Series['labels']): boolean => destinations.get(route) === name
  return {
    requests: figures.sum('sallyport_requests_total', isIts),
    failed: figures.sum('sallyport_requests_total', (labels) => isIts(labels) && isServerError(labels)),
  }
}
