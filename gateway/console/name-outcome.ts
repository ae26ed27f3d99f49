import type { RefusalCode } from '../errors/gateway-error.ts'

/** What a caller reads in `error.check`, or why there is none. */
export function nameOutcome(outcome: 'allowed' | RefusalCode): 'yes' | '401' | 'role' | 'ability' | 'resource' {
  switch (outcome) {
    case 'allowed':
      return 'yes'
    case 'unauthenticated':
      return '401'
    case 'role_insufficient':
    case 'organization_forbidden':
      return 'role'
    case 'ability_missing':
      return 'ability'
    default:
      return 'resource'
  }
}
