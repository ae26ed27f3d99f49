import { renameSync } from 'node:fs'
import { copyPolicies, policyFile } from '../copy-policies.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'a policy file is missing for a while',
  cells: [['disk', 'refuses']],
  alerts: ['SallyportPolicyHeld'],
  isShort: true,
  prepare: (fixture) => ({ settings: { policies: { directory: copyPolicies(fixture) } } }),
  begin: (fixture) => renameSync(policyFile(fixture, 'data.yaml'), policyFile(fixture, '.data.yaml')),
  end: (fixture) => renameSync(policyFile(fixture, '.data.yaml'), policyFile(fixture, 'data.yaml')),
  lookDuring: async ({ metric }) => {
    const held = await metric('sallyport_policy_held')
    return [{ check: 'the policy is held (sallyport_policy_held)', seen: String(held), limit: '1', isMet: held === 1 }]
  },
  lookAfter: async ({ metric, gateway }) => {
    const held = await metric('sallyport_policy_held')
    const taken = gateway().readLog().includes('"policies changed"')
    return [
      { check: 'held back afterwards', seen: String(held), limit: '0', isMet: held === 0 },
      { check: 'another table was taken', seen: String(taken), limit: 'false', isMet: !taken },
    ]
  },
}
