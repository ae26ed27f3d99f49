import { createHash } from 'node:crypto'
import type { Permit } from '../authorize/decide.ts'
import { GatewayError } from '../errors/gateway-error.ts'
import { readNetwork } from '../network/network.ts'
import type { BudgetOwner } from '../policy/rate-limit.ts'

/** Who spends of a budget with a permitted request: ids of ours, never a text of the client's. */
export function ownerOfPermit({ match, caller }: Permit, by: Exclude<BudgetOwner, 'address'>): string {
  if (by === 'route') return `route:${match.route.id}`
  if (!caller) throw new GatewayError('internal') // the policy's check lets no public route be limited so
  const { organization, principal } = caller
  const user = `user:${principal.user.id}`
  switch (by) {
    case 'principal':
      return user
    case 'organization':
      return organization ? `organization:${organization.id}` : user
    default:
      return by satisfies never
  }
}

/** Who spends with any request from an address; hashed, since addresses are of people, and Redis is shared. */
export const ownerOfAddress = (address: string): string =>
  `address:${createHash('sha256').update(readNetwork(address)).digest('base64url').slice(0, 22)}`
