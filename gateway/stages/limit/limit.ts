// Budgets of requests: each permitted request is counted, in memory or in Redis.
import { createHash } from 'node:crypto'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { readNetwork } from '../../base/network/network.ts'
import { type KnownUser, nameUser } from '../../directory/directory.ts'
import type { Exchange, RawHeaders } from '../../http/exchange.ts'
import type { BudgetOwner, RateLimit } from '../../policy/rate-limit.ts'
import type { Permit } from '../authorize/decide.ts'
import type { Client } from '../receive/client.ts'
import type { RouteMatch } from '../route/table.ts'
import type { Count, Usage } from './count.ts'

export type Limit = Readonly<{
  checkAddress: (match: RouteMatch, client: Client, exchange: Exchange) => Promise<void>
  /** Runs after the decision, so that a caller without permission cannot spend a budget. */
  checkCaller: (permit: Permit, exchange: Exchange) => Promise<void>
}>

export type LimitOptions = Readonly<{
  count: Count
  onLimited: (route: string, limit: string) => void
  onError: (limit: string, outcome: RateLimit['onError']) => void
}>

export function createLimit({ count, onLimited, onError }: LimitOptions): Limit {
  const judge = async (limit: RateLimit, { route }: RouteMatch, owner: string, exchange: Exchange): Promise<void> => {
    const usage = await count(limit, owner).catch((cause: unknown) => {
      onError(limit.name, limit.onError)
      if (limit.onError === 'deny') throw new GatewayError('rate_limit_unavailable', { cause })
    })
    if (!usage) return
    exchange.transformHead((headers) => [...headers, ...describeUsage(limit, usage)])
    if (usage.used <= limit.requests) return
    onLimited(route.id, limit.name)
    throw new GatewayError('rate_limited', { retryAfter: String(secondsLeft(usage)) })
  }
  return {
    checkAddress: async (match, client, exchange) => {
      const { rateLimit } = match.route
      if (rateLimit?.by === 'address') await judge(rateLimit, match, ownerOfAddress(client.address), exchange)
    },
    checkCaller: async (permit, exchange) => {
      const { rateLimit } = permit.match.route
      if (!rateLimit || rateLimit.by === 'address') return
      await judge(rateLimit, permit.match, ownerOfPermit(permit, rateLimit.by), exchange)
    },
  }
}

/**
 * draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4. An upstream's own values stay, because both fields are
 * lists of named members.
 */
const describeUsage = ({ name, requests, seconds }: RateLimit, usage: Usage): RawHeaders => [
  'ratelimit-policy',
  `"${name}";q=${requests};w=${seconds}`,
  'ratelimit',
  `"${name}";r=${Math.max(0, requests - usage.used)};t=${secondsLeft(usage)}`,
]

/** Rounded up, so that a client that waits this long gets the next window. */
const secondsLeft = ({ resetMs }: Usage): number => Math.max(1, Math.ceil(resetMs / 1_000))

/** Owner of a budget, made of the gateway's own ids and never of the client's text. */
function ownerOfPermit({ match, caller }: Permit, by: Exclude<BudgetOwner, 'address'>): string {
  if (by === 'route') return `route:${match.route.id}`
  if (!caller) throw new GatewayError('internal') // `policy check` refuses such a limit on a public route
  const { organization, principal } = caller
  const user = ownerOfUser(principal.user)
  switch (by) {
    case 'principal':
      return user
    case 'organization':
      return organization ? `organization:${organization.id}` : user
    default:
      return by satisfies never
  }
}

/** A user of claims is named by issuer and subject, which are text of others and personal data. */
function ownerOfUser(user: KnownUser): string {
  const name = nameUser(user)
  return `user:${typeof name === 'number' ? name : hashShort(name)}`
}

/** Hashed, because addresses are personal data and Redis is shared. */
export const ownerOfAddress = (address: string): string => `address:${hashShort(readNetwork(address))}`

const hashShort = (text: string): string => createHash('sha256').update(text).digest('base64url').slice(0, 22)
