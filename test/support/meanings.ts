import type { Meanings, OrganizationRole } from '../../gateway/policy/role.ts'

/** Meanings of a ladder of three roles or fewer, whose abilities write if they end in `:write`. */
export const meaningsOf = (low: OrganizationRole, middle = low, high = middle): Meanings => ({
  executes: low,
  reads: low,
  writes: middle,
  manages: middle,
  owns: high,
  writeAbilities: undefined,
  manageAbilities: new Set(['organizations:write']),
})
