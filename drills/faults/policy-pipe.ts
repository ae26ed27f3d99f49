import { execFileSync } from 'node:child_process'
import { renameSync } from 'node:fs'
import { copyPolicies, policyFile } from '../copy-policies.ts'
import type { Drill } from '../drill.ts'

export const drill: Drill = {
  about: 'a named pipe without a writer replaces a policy file',
  cells: [['disk', 'hangs']],
  alerts: ['SallyportPolicyReloadFailing'],
  prepare: (fixture) => ({ settings: { policies: { directory: copyPolicies(fixture) } } }),
  begin: (fixture) => {
    renameSync(policyFile(fixture, 'data.yaml'), policyFile(fixture, '.data.yaml'))
    execFileSync('mkfifo', [policyFile(fixture, 'data.yaml')])
  },
  end: (fixture) => renameSync(policyFile(fixture, '.data.yaml'), policyFile(fixture, 'data.yaml')),
  lookDuring: async ({ metric }) => {
    const good = await metric('sallyport_policy_reload_success')
    return [{ check: 'sallyport_policy_reload_success', seen: String(good), limit: '0', isMet: good === 0 }]
  },
  lookAfter: async ({ metric }) => {
    const good = await metric('sallyport_policy_reload_success')
    return [{ check: 'sallyport_policy_reload_success', seen: String(good), limit: '1', isMet: good === 1 }]
  },
}
