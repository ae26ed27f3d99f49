import { type CallerOptions, findUnknown, imagineFromWords } from '../../analyze/caller-options.ts'
import { findCaller } from '../../analyze/database-caller.ts'
import { type ExplainedRequest, type Explanation, explain } from '../../analyze/explain.ts'
import type { HypotheticalCaller } from '../../analyze/hypothetical-caller.ts'
import { type PolicySource, readPolicy } from '../../analyze/read-policy.ts'
import { UsageError } from '../../configuration/failure.ts'
import { escapeControls, escapeJson, formatTable } from '../../lib/text-table.ts'
import type { Policy } from '../../policy/compile.ts'
import { readId, withDirectory } from '../directory.ts'

type ExplainOptions = PolicySource &
  Readonly<{
    role?: string
    platformRole: readonly string[]
    scope?: string
    ability: readonly string[]
    agent: string
    host: string
    anonymous?: boolean
    user?: string
    organization?: string
    org?: string
    credential?: string
    token?: string
    json?: boolean
  }>

export async function runExplain(method: string, target: string, given: ExplainOptions): Promise<void> {
  const options = readOtherNames(given)
  const { policy } = readPolicy(options)
  const request = { method: method.toUpperCase(), target, host: options.host }
  const explanation = explain(policy, { ...request, ...(await findRequestCaller(request, options, policy)) })
  if (options.json) process.stdout.write(`${escapeJson(explanation)}\n`)
  else process.stdout.write(describe(explanation))
  if (explanation.outcome !== 'allowed') process.exitCode = 1
}

function readOtherNames({ credential, org, ...options }: ExplainOptions): ExplainOptions {
  const organization = options.organization ?? org
  const named = { ...options, ...(organization !== undefined && { organization }) }
  if (credential === undefined) return named
  if (options.anonymous || options.scope !== undefined)
    throw new UsageError('--credential, --anonymous and --scope exclude each other; give one of them')
  if (credential === 'none') return { ...named, anonymous: true }
  return credential === 'oauth' ? named : { ...named, scope: credential }
}

type Request = Pick<ExplainedRequest, 'method' | 'target' | 'host'>

async function findRequestCaller(
  request: Request,
  options: ExplainOptions,
  policy: Policy,
): Promise<Pick<ExplainedRequest, 'caller' | 'refusal'>> {
  const { config, user, organization, token, anonymous } = options
  if (user === undefined) {
    if (organization !== undefined || token !== undefined)
      throw new UsageError('--organization and --token need --user; give it too')
    return { caller: anonymous ? undefined : imagineFrom(options, policy) }
  }
  const more = findDescribed(options)
  if (more !== undefined) throw new UsageError(`--user and --${more} exclude each other; give one of them`)
  const wanted = {
    user: readId('--user', user),
    organization: organization === undefined ? undefined : readId('--organization', organization),
    token: token === undefined ? undefined : readId('--token', token),
  }
  return withDirectory(config, (tools) => findCaller(request, wanted, policy, tools))
}

function findDescribed({ ability, platformRole, ...options }: ExplainOptions): string | undefined {
  if (ability.length > 0) return 'ability'
  if (platformRole.length > 0) return 'platform-role'
  return (['role', 'scope', 'anonymous', 'policies'] as const).find((name) => options[name] !== undefined)
}

function imagineFrom(options: ExplainOptions, { roles }: Policy): HypotheticalCaller {
  const { role, platformRole: platformRoles, scope, ability, agent } = options
  if (agent !== 'own' && agent !== 'public' && agent !== 'foreign')
    throw new UsageError('--agent is one of own, public, foreign')
  const words: CallerOptions = { role, platformRoles, scope, agent, ...(ability.length > 0 && { abilities: ability }) }
  const [unknown] = findUnknown(words, roles)
  if (unknown !== undefined) throw new UsageError(unknown)
  return imagineFromWords(words, roles)
}

function describe({ status, outcome, route, source, asks, checks }: Explanation): string {
  const rows = checks.map(({ check, isPassed, why }) => [check, isPassed ? 'pass' : 'FAIL', why])
  const condition = asks ? `, if each decision point says yes: ${asks.join(', ')}` : ''
  const verdict = outcome === 'allowed' ? `allowed${condition}` : `refused: ${status} ${outcome}`
  const where = route === undefined ? '' : `, by route ${route} (${source})`
  return `${formatTable(['check', '', 'why'], rows)}\n${escapeControls(`${verdict}${where}`)}\n`
}
