import { type CallerOptions, composeCallerFromWords, findUnknown } from '../../../analyze/caller-options.ts'
import { findCaller } from '../../../analyze/database-caller.ts'
import { diffPolicies, type PolicyDiff, type RouteName } from '../../../analyze/diff/diff.ts'
import { formatDiff } from '../../../analyze/diff/format-diff.ts'
import { listWidenings } from '../../../analyze/diff/list-widenings.ts'
import type { PolicyPair } from '../../../analyze/diff/pairs.ts'
import { type ExplainedRequest, type Explanation, explain } from '../../../analyze/explain.ts'
import type { HypotheticalCaller } from '../../../analyze/hypothetical-caller.ts'
import { type PolicySource, readPolicy, readPolicyAt } from '../../../analyze/read-policy.ts'
import { escapeControls, escapeJson, formatTable } from '../../../base/lib/text-table.ts'
import { UsageError } from '../../../configuration/failure.ts'
import type { Policy } from '../../../policy/compile.ts'
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
    against?: string
    json?: boolean
  }>

export async function runExplain(method: string, target: string, given: ExplainOptions): Promise<void> {
  const options = readOtherNames(given)
  const { policy } = readPolicy(options)
  const request = { method: method.toUpperCase(), target, host: options.host }
  const explainBy = async (by: Policy): Promise<Explanation> =>
    explain(by, { ...request, ...(await findRequestCaller(request, options, by)) })
  const explanation = await explainBy(policy)
  const against = options.against === undefined ? undefined : await explainAgainst(options.against)
  if (options.json) process.stdout.write(`${escapeJson({ ...explanation, ...(against && { against }) })}\n`)
  else process.stdout.write(`${describe(explanation)}${against ? describeAgainst(against) : ''}`)
  if (explanation.outcome !== 'allowed') process.exitCode = 1

  async function explainAgainst(policies: string): Promise<Against> {
    const old = readPolicyAt(policies)
    const other = await explainBy(old)
    return { policies, ...other, changes: findChanges({ old, new: policy }, [other.route, explanation.route]) }
  }
}

/** Another policy's answer to the same request, and how this one differs for the routes that the two take. */
type Against = Explanation & Readonly<{ policies: string; changes: PolicyDiff }>

function findChanges(policies: PolicyPair, taken: readonly (string | undefined)[]): PolicyDiff {
  const diff = diffPolicies(policies)
  const isTaken = (name: RouteName | undefined): boolean => name !== undefined && taken.includes(name.route)
  const changes = { ...diff, routes: diff.routes.filter(({ old, new: fresh }) => isTaken(old) || isTaken(fresh)) }
  return { ...changes, isWidened: listWidenings(changes).length > 0 }
}

function describeAgainst({ policies, changes, ...other }: Against): string {
  const isSame = changes.routes.length + changes.roles.length + changes.organizations.length === 0
  const differences = isSame ? 'nothing that concerns this request\n' : formatDiff(changes, 'table')
  const answer = `by ${escapeControls(policies)}:\n${describe(other)}`
  return `\n${answer}\nchanged from there to here:\n${differences}`
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
    return { caller: anonymous ? undefined : composeCaller(options, policy) }
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

function composeCaller(options: ExplainOptions, { roles }: Policy): HypotheticalCaller {
  const { role, platformRole: platformRoles, scope, ability, agent } = options
  if (agent !== 'own' && agent !== 'public' && agent !== 'foreign')
    throw new UsageError('--agent is one of own, public, foreign')
  const words: CallerOptions = { role, platformRoles, scope, agent, ...(ability.length > 0 && { abilities: ability }) }
  const [unknown] = findUnknown(words, roles)
  if (unknown !== undefined) throw new UsageError(unknown)
  return composeCallerFromWords(words, roles)
}

function describe({ status, outcome, route, source, asks, checks }: Explanation): string {
  const rows = checks.map(({ check, isPassed, why }) => [check, isPassed ? 'pass' : 'FAIL', why])
  const condition = asks ? `, if each decision point says yes: ${asks.join(', ')}` : ''
  const verdict = outcome === 'allowed' ? `allowed${condition}` : `refused: ${status} ${outcome}`
  const where = route === undefined ? '' : `, by route ${route} (${source})`
  return `${formatTable(['check', '', 'why'], rows)}\n${escapeControls(`${verdict}${where}`)}\n`
}
