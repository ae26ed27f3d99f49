import { disarm } from '../../lib/text-table.ts'
import type { Trial } from './try-expectations.ts'

export const trialFormats = ['text', 'tap', 'json'] as const

export type TrialFormat = (typeof trialFormats)[number]

/** Writes what was tried for people (failures alone), for a TAP reader, or for a program. */
export function formatTrials(trials: readonly Trial[], format: TrialFormat): string {
  const failed = trials.filter(({ faults }) => faults.length > 0)
  switch (format) {
    case 'text':
      return [
        ...failed.flatMap(({ name, place, faults }) => faults.map((fault) => disarm(`${place}: ${name}: ${fault}`))),
        `${trials.length - failed.length} passed, ${failed.length} failed\n`,
      ].join('\n')
    case 'tap':
      return ['TAP version 14', `1..${trials.length}`, ...trials.flatMap(writeTap), ''].join('\n')
    case 'json':
      return `${JSON.stringify({ passed: trials.length - failed.length, failed: failed.length, trials }, undefined, 2)}\n`
    default:
      return format satisfies never
  }
}

function writeTap({ name, place, faults }: Trial, index: number): readonly string[] {
  // A bare number sign would begin a directive (TAP 14, "Escaping").
  const title = disarm(name).replace(/[\\#]/g, '\\$&')
  const diagnosis = [...faults, `at ${place}`].map((line) => `# ${disarm(line)}`)
  return faults.length === 0 ? [`ok ${index + 1} - ${title}`] : [`not ok ${index + 1} - ${title}`, ...diagnosis]
}
