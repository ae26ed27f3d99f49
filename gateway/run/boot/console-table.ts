import { type Explained, type ExplainQuestion, readCredential } from '../../../console/explain.ts'
import type { ConsoleTable } from '../../../console/snapshot.ts'
import { type CallerOptions, composeCallerFromWords, findUnknown } from '../../analyze/caller-options.ts'
import { explain } from '../../analyze/explain.ts'
import { buildMatrix } from '../../analyze/matrix.ts'
import type { Policy } from '../../policy/compile.ts'
import type { KnownUpstreams } from '../../policy/known-upstreams.ts'
import { parsePolicyInThread } from '../../policy/load.ts'
import { methods } from '../../policy/route.ts'
import type { TrieTerms } from '../../policy/route-trie.ts'
import { compileRoutes, type RouteTable } from '../../stages/route/table.ts'
import type { PolicyTextList } from '../reload/policy-status.ts'

export async function compileConsoleTable(
  texts: PolicyTextList,
  upstreams: KnownUpstreams,
  terms?: TrieTerms,
): Promise<ConsoleTable> {
  const policy = await parsePolicyInThread('', new Map(texts), upstreams)
  const table = compileRoutes(policy.routes, terms)
  const destinations = policy.routes.flatMap(({ id, destination }) =>
    destination.kind === 'upstream' ? [[id, destination.name] as const] : [],
  )
  return {
    lines: buildMatrix(policy),
    destinations: new Map(destinations),
    choices: {
      methods,
      roles: [...policy.roles.organization.keys()],
      platformRoles: [...policy.roles.platform.keys()],
      tokenScopes: [...policy.roles.tokenScopes.keys()],
    },
    explain: (question) => answer(question, policy, table),
  }
}

function answer(question: ExplainQuestion, policy: Policy, table: RouteTable): Explained {
  const { method, path: target, host } = question
  const words = describeCaller(question)
  if (typeof words === 'string') return words
  const [unknown] = words ? findUnknown(words, policy.roles) : []
  if (unknown !== undefined) return unknown
  const caller = words && composeCallerFromWords(words, policy.roles)
  return explain(policy, { method, target, host, caller }, table)
}

function describeCaller({
  role,
  platformRole,
  credential,
  agent,
}: ExplainQuestion): CallerOptions | string | undefined {
  if (agent !== 'own' && agent !== 'public' && agent !== 'foreign') return 'An agent is own, public or foreign.'
  const read = readCredential(credential)
  if (!read) return 'The credential is unknown. Choose one from the list.'
  if (read.kind === 'none') return undefined
  return {
    role: role || undefined,
    platformRoles: platformRole === '' ? [] : [platformRole],
    scope: read.kind === 'token' ? read.scope : undefined,
    agent,
  }
}
