import type { RefusalCause, RefusalCode } from '../errors/gateway-error.ts'
import type { Audit } from '../observe/audit/audit.ts'
import type { AuditedDecision, AuditedListener } from '../observe/audit/line.ts'
import { redact } from '../observe/log/redact.ts'

/** One request that was refused, as plain data, and no more of it than an operator needs to find it in the log. */
export type Refusal = Readonly<{
  time: string
  requestId: string
  listener: AuditedListener
  status: number | undefined
  code: RefusalCode | undefined
  cause: RefusalCause | undefined
  /** The number that a refused API token claims to have. */
  tokenId: number | undefined
  method: string | undefined
  /** Without the query, and without credentials that were put there by mistake. */
  path: string | undefined
  route: string | undefined
  userId: number | undefined
  organizationId: number | undefined
  clientAddress: string
}>

/** The console lists no more than these. */
export const refusalLimit = 50

/** Fifty of the longest are still no more than 20 kB. */
const pathLimit = 256
const wordLimit = 64

type RememberedRefusals = Readonly<{ audit: Audit; refusals: () => readonly Refusal[] }>

/** Stands before the audit, switched off or not, and keeps the newest refusals; newest first when asked. */
export function rememberRefusals(audit: Audit): RememberedRefusals {
  const ring: AuditedDecision[] = []
  let next = 0
  return {
    audit: {
      ...audit,
      record: (decision) => {
        if (decision.outcome === 'refused') {
          ring[next] = decision
          next = (next + 1) % refusalLimit
        }
        return audit.record(decision)
      },
    },
    refusals: () => [...ring.slice(next), ...ring.slice(0, next)].reverse().map(toRefusal),
  }
}

/** The newest of what several processes remember. */
export const mergeRefusals = (parts: readonly (readonly Refusal[])[]): readonly Refusal[] =>
  parts
    .flat()
    .sort((one, other) => other.time.localeCompare(one.time))
    .slice(0, refusalLimit)

const toRefusal = (decision: AuditedDecision): Refusal => ({
  time: decision.time.toISOString(),
  requestId: decision.requestId.slice(0, wordLimit),
  listener: decision.listener,
  status: decision.status,
  code: decision.error?.code,
  cause: decision.error?.exactCause,
  tokenId: decision.error?.details.tokenId,
  method: decision.method?.slice(0, wordLimit),
  // What was misplaced is taken out first: half a token would not be known for one.
  path: decision.path === undefined ? undefined : redact(decision.path).slice(0, pathLimit),
  route: decision.route,
  userId: decision.principal?.user.id,
  organizationId: decision.organization?.id,
  clientAddress: decision.clientAddress.slice(0, wordLimit),
})
