import type { PolicyFile, PolicyFileContent } from '../../gateway/policy/file.ts'

/** A policy file that exists in memory alone. Every route and problem is at line 1. */
export const imaginePolicyFile = (name: string, content: PolicyFileContent): PolicyFile => ({
  name,
  content,
  routeLines: (content.routes ?? []).map(() => 1),
  problemAt: (_, message) => ({ file: name, line: 1, column: 1, message }),
})
