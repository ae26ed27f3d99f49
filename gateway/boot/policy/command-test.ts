import { chooseFormat, type FormatOptions } from './choose-format.ts'
import { formatTrials, trialFormats } from './expect/format-trials.ts'
import { readExpectations } from './expect/read-expectations.ts'
import { tryExpectations } from './expect/try-expectations.ts'
import { type PolicySource, readPolicy } from './read-policy.ts'

/** Tries what `*.test.yaml` beside the policies expect of them. Exit code 1 where something else comes out. */
export function runTestPolicy(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, trialFormats)
  const { policy, directory } = readPolicy(options)
  const trials = tryExpectations(policy, readExpectations(directory, policy))
  process.stdout.write(formatTrials(trials, format))
  if (trials.some(({ faults }) => faults.length > 0)) process.exitCode = 1
}
