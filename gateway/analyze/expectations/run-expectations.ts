// Tests that stand beside a policy: requests and callers, with the answer that each must get.
import { findRefusal } from '../../base/errors/gateway-error.ts'
import { escapeControls, escapeJson } from '../../base/lib/text-table.ts'
import type { Policy } from '../../policy/compile.ts'
import { compileRoutes, type RouteTable } from '../../stages/route/table.ts'
import { composeCallerFromWords } from '../caller-options.ts'
import { type Explanation, explain } from '../explain.ts'
import type { Expectation } from './read-expectations.ts'

export type TestResult = Readonly<{ name: string; place: string; faults: readonly string[] }>

export function runExpectations(policy: Policy, expectations: readonly Expectation[]): readonly TestResult[] {
  const table = compileRoutes(policy.routes)
  return expectations.flatMap((expectation) =>
    expectation.requests.flatMap((request) =>
      expectation.callers.map((caller) => tryOne(policy, table, expectation, request, caller)),
    ),
  )
}

function tryOne(
  policy: Policy,
  table: RouteTable,
  expectation: Expectation,
  request: string,
  words: Expectation['callers'][number],
): TestResult {
  const [method = '', target = ''] = request.split(' ')
  const caller = words.anonymous ? undefined : composeCallerFromWords(words, policy.roles)
  const found = explain(policy, { method, target, host: expectation.host ?? 'localhost', caller }, table)
  const name = `${expectation.name ? `${expectation.name}: ` : ''}${request} ${describeCaller(words)}`
  return { name, place: expectation.place, faults: compare(expectation, found, target.split('?')[0]) }
}

function compare(expected: Expectation, found: Explanation, target: string | undefined): readonly string[] {
  const check = found.outcome === 'allowed' ? undefined : findRefusal(found.outcome).check
  const answer = `${found.status} ${found.outcome}${found.route ? ` by route ${found.route} (${found.source})` : ''}${found.upstreamPath ? `, forwarded as ${found.upstreamPath}` : ''}${found.asks ? `, if ${found.asks.join(', ')} say yes` : ''}`
  const wrong = (what: string, wish: unknown, got: unknown): readonly string[] =>
    wish === undefined || wish === got ? [] : [`expected ${what} ${wish}, got ${answer}`]
  return [
    ...wrong('to', expected.expect, found.outcome === 'allowed' ? 'allow' : 'deny'),
    ...wrong('status', expected.status, found.status),
    ...wrong('code', expected.code, found.outcome),
    ...wrong('check', expected.check, check),
    ...wrong('route', expected.route, found.route),
    ...wrong('asks', expected.asks?.join(', '), (found.asks ?? []).join(', ')),
    ...wrong('upstream path', expected.upstreamPath, found.upstreamPath ?? target),
  ]
}

function describeCaller(words: Expectation['callers'][number]): string {
  if (words.anonymous) return 'without credential'
  const { role = 'no organization', platformRoles = [], scope, abilities, agent, organization } = words
  const token = [...(scope === undefined ? [] : [scope]), ...(abilities ?? [])].join(', ')
  const ties = [...(agent ? [`${agent} agent`] : []), ...(organization ? [`${organization} organization`] : [])]
  const holder = [role, ...platformRoles].join(' and ')
  return `by ${holder}${token || abilities ? `, token ${token || 'without abilities'}` : ''}${ties.map((tie) => `, ${tie}`).join('')}`
}

export const trialFormats = ['text', 'tap', 'json'] as const

type TrialFormat = (typeof trialFormats)[number]

export function formatTrials(trials: readonly TestResult[], format: TrialFormat): string {
  const failed = trials.filter(({ faults }) => faults.length > 0)
  switch (format) {
    case 'text':
      return [
        ...failed.flatMap(({ name, place, faults }) =>
          faults.map((fault) => escapeControls(`${place}: ${name}: ${fault}`)),
        ),
        `${trials.length - failed.length} passed, ${failed.length} failed\n`,
      ].join('\n')
    case 'tap':
      return ['TAP version 14', `1..${trials.length}`, ...trials.flatMap(writeTap), ''].join('\n')
    case 'json':
      return `${escapeJson({ passed: trials.length - failed.length, failed: failed.length, trials }, 2)}\n`
    default:
      return format satisfies never
  }
}

function writeTap({ name, place, faults }: TestResult, index: number): readonly string[] {
  // A bare number sign would begin a directive (TAP 14, "Escaping").
  const title = escapeControls(name).replace(/[\\#]/g, '\\$&')
  const diagnosis = [...faults, `at ${place}`].map((line) => `# ${escapeControls(line)}`)
  return faults.length === 0 ? [`ok ${index + 1} - ${title}`] : [`not ok ${index + 1} - ${title}`, ...diagnosis]
}
