import type { FoundRequest } from '../../analyze/found-request.ts'
import { escapeControls } from '../../base/lib/text-table.ts'
import type { TokenDeed } from '../../directory/postgres/audit.ts'

export type ExplainedMatch = FoundRequest &
  Readonly<{
    meaning: string
    remedy: string | null
    policy: string | null
    /** For a token that the directory does not have; null where that was not looked up. */
    tokenTrail: readonly TokenDeed[] | null
  }>

export function describeRequest(match: ExplainedMatch): string {
  const facts: readonly (readonly [name: string, value: string | undefined])[] = [
    ['why', match.meaning],
    ['do', match.remedy ?? undefined],
    ['request', describeTarget(match)],
    [
      'route',
      match.route === null ? 'none matched' : `${match.route}${match.policy === null ? '' : ` (${match.policy})`}`,
    ],
    ['organization', match.organizationId === null ? 'none' : String(match.organizationId)],
    ['caller', describeCaller(match)],
    ['token', describeTrail(match)],
    ['upstream', match.upstream ?? undefined],
    ['client', match.clientAddress ?? undefined],
    ['took', match.durationMs === null ? undefined : `${Math.round(match.durationMs)} ms`],
    ['found', `${match.source}${match.replica === null ? '' : `, replica ${match.replica}`}`],
    ['next', suggestNext(match)],
  ]
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [`  ${`${name}:`.padEnd(14)}${value}`]))
  return `${[`${match.time}  ${describeVerdict(match)}`, ...lines].map(escapeControls).join('\n')}\n`
}

function describeVerdict({ outcome, status, reason, cause, check }: ExplainedMatch): string {
  if (outcome === 'allowed') return 'allowed'
  const words = [
    outcome,
    status === null ? undefined : String(status),
    reason ?? undefined,
    check === null ? undefined : `(check: ${check})`,
    cause === null || cause === reason ? undefined : `cause: ${cause}`,
  ]
  return words.filter((word) => word !== undefined).join(' ')
}

function describeTarget({ method, path, listener }: ExplainedMatch): string {
  const target = path === null ? `${method ?? ''} (the target could not be read)` : `${method ?? ''} ${path}`
  return `${target.trim()}${listener === null ? '' : `, at the ${listener} listener`}`
}

function describeCaller({ userId, userKind, credential, tokenId }: ExplainedMatch): string {
  const claimed = tokenId === null ? '' : ` ${tokenId}`
  if (userId === null) return tokenId === null ? 'unknown' : `unknown, claims to be token${claimed}`
  const words = [
    `user ${userId}`,
    userKind,
    credential === 'api-token' ? `by API token${claimed}` : credential && `by ${credential}`,
  ]
  return words.filter(Boolean).join(', ')
}

/** The number is all that is known: the secret of a token that is gone cannot be compared. */
function describeTrail({ tokenId, tokenTrail }: ExplainedMatch): string | undefined {
  if (tokenTrail === null) return undefined
  if (tokenTrail.length === 0)
    return `the database has no record that token ${tokenId} was minted or revoked: a guess, or a token of another environment`
  const last = tokenTrail.at(-1)
  const rest =
    last?.action === 'token.minted' ? '; it was not revoked here, so it was deleted in the database by hand' : ''
  return `${tokenTrail.map(describeDeed).join('; ')}${rest}`
}

const describeDeed = ({ at, action, actorId, credential, ownerId, clientAddress, requestId }: TokenDeed): string =>
  `${action === 'token.revoked' ? 'revoked' : 'minted'} ${at.toISOString()} by ${
    actorId === null ? 'an operator at the command line' : `user ${actorId} (${credential}) from ${clientAddress}`
  }${ownerId === null ? '' : `, owner user ${ownerId}`}, request ${requestId}`

function suggestNext({ outcome, status, method, path, userId, organizationId, credential, tokenId }: ExplainedMatch) {
  if (outcome !== 'refused' || (status !== 403 && status !== 404)) return undefined
  if (typeof userId !== 'number' || method === null || path === null) return undefined
  const words = ['sallyport policy explain', method, quote(path), '--user', String(userId)]
  if (organizationId !== null) words.push('--organization', String(organizationId))
  if (credential === 'api-token' && tokenId !== null) words.push('--token', String(tokenId))
  return words.join(' ')
}

const quote = (text: string): string => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`)
