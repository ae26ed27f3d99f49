import { diffPolicies } from '../../../analyze/diff/diff.ts'
import { diffFormats, formatDiff } from '../../../analyze/diff/format-diff.ts'
import { readPolicyAt } from '../../../analyze/read-policy.ts'
import { chooseFormat, type FormatOptions } from './format-option.ts'

export function runDiff(
  old: string,
  fresh: string,
  options: FormatOptions & Readonly<{ allowWidening?: boolean }>,
): void {
  const format = chooseFormat(options, diffFormats)
  const diff = diffPolicies({ old: readPolicyAt(old), new: readPolicyAt(fresh) })
  process.stdout.write(formatDiff(diff, format))
  if (diff.isWidened && !options.allowWidening) process.exitCode = 1
}
