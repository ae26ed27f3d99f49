import { readExpectations } from '../../../analyze/expectations/read-expectations.ts'
import { formatTrials, runExpectations, trialFormats } from '../../../analyze/expectations/run-expectations.ts'
import { type PolicySource, readPolicy } from '../../../analyze/read-policy.ts'
import { chooseFormat, type FormatOptions } from './format-option.ts'

export function runTestPolicy(options: PolicySource & FormatOptions): void {
  const format = chooseFormat(options, trialFormats)
  const { policy, directory } = readPolicy(options)
  const trials = runExpectations(policy, readExpectations(directory, policy))
  process.stdout.write(formatTrials(trials, format))
  if (trials.some(({ faults }) => faults.length > 0)) process.exitCode = 1
}
