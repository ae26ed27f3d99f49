import { createHash } from 'node:crypto'
import type { PolicyChange, PolicyFailure, PolicyHold, PolicyState } from '../../listeners/admin/policy-state.ts'
import { redact } from '../../observe/log/redact.ts'
import type { PolicyTexts } from '../../policy/file.ts'

export type PolicyStatus = Readonly<{
  noteTaken: (texts: PolicyTexts) => void
  noteOutcome: (isGood: boolean, error?: Error) => void
  noteHeld: (held: (Pick<PolicyHold, 'reason' | 'names'> & Partial<PolicyHold>) | undefined) => void
  noteChange: (change: Omit<PolicyChange, 'at'>) => void
  state: () => PolicyState
  texts: () => PolicyTextList
}>

export type PolicyTextList = readonly (readonly [name: string, text: string])[]

/** An author mends some first, and every worker sends the text to the primary. */
const mistakesShown = 50

export function trackPolicyStatus(directory: string, now: () => Date): PolicyStatus {
  let inUse: Pick<PolicyState, 'loadedAt' | 'fingerprint'> = { loadedAt: undefined, fingerprint: undefined }
  let texts: PolicyTextList = []
  let failure: PolicyFailure | undefined
  let held: PolicyHold | undefined
  let change: PolicyChange | undefined
  return {
    noteTaken: (taken) => {
      texts = [...taken]
      inUse = { loadedAt: now().toISOString(), fingerprint: takeFingerprint(texts) }
    },
    noteOutcome: (isGood, error) => {
      const message = cut(redact(error?.message ?? 'unknown error'))
      if (isGood) failure = undefined
      else if (message !== failure?.message) failure = { since: now().toISOString(), message }
    },
    noteHeld: (noted) => {
      const since = held?.reason === noted?.reason ? held?.since : undefined
      held = noted && {
        since: since ?? now().toISOString(),
        reason: noted.reason,
        names: noted.names,
        widened: noted.widened ?? [],
      }
    },
    noteChange: (noted) => {
      change = { at: now().toISOString(), ...noted }
    },
    state: () => ({ directory, ...inUse, files: texts.map(([name]) => name), failure, held, change }),
    texts: () => texts,
  }
}

export const takeFingerprint = (texts: PolicyTextList): string =>
  createHash('sha256').update(JSON.stringify(texts)).digest('hex').slice(0, 12)

function cut(message: string): string {
  const lines = message.split('\n')
  const rest = lines.length - mistakesShown
  return rest <= 0 ? message : [...lines.slice(0, mistakesShown), `… and ${rest} more`].join('\n')
}
