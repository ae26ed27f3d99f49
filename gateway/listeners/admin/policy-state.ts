export type PolicyState = Readonly<{
  directory: string
  loadedAt: string | undefined
  files: readonly string[]
  fingerprint: string | undefined
  failure: PolicyFailure | undefined
  held: PolicyHold | undefined
  change: PolicyChange | undefined
}>

/**
 * `names` are missing files, or routes that would allow more callers. `widening` comes from `reload.onWidening`; the
 * other reasons hold the files in any case.
 */
export type PolicyHold = Readonly<{
  since: string
  reason: 'widening' | 'file_missing' | 'no_routes'
  names: readonly string[]
  widened: readonly string[]
}>

export type PolicyChange = Readonly<{
  at: string
  gained: readonly string[]
  lost: readonly string[]
  widened: readonly string[]
}>

export type PolicyFailure = Readonly<{ since: string; message: string }>

export type PolicyStates = Readonly<{ live: PolicyState; shadow: PolicyState | undefined }>

export function choosePolicyStates(states: readonly PolicyStates[]): PolicyStates | undefined {
  const live = chooseWorst(states.map((state) => state.live))
  return live && { live, shadow: chooseWorst(states.flatMap(({ shadow }) => shadow ?? [])) }
}

const chooseWorst = (states: readonly PolicyState[]): PolicyState | undefined =>
  [...states].sort(
    (one, other) =>
      Number(other.failure !== undefined) - Number(one.failure !== undefined) ||
      Number(other.held !== undefined) - Number(one.held !== undefined) ||
      (one.loadedAt ?? '').localeCompare(other.loadedAt ?? ''),
  )[0]
