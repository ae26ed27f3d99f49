/** What a process knows of a table that it takes from files, as plain data. */
export type PolicyState = Readonly<{
  directory: string
  /** When the table in use was taken; undefined where none has been good yet. */
  loadedAt: string | undefined
  /** The names of its files. */
  files: readonly string[]
  /** The same for the same files, wherever they are read; undefined as above. */
  fingerprint: string | undefined
  /** Why what the files say now is not in use; undefined while they are good. */
  trouble: PolicyTrouble | undefined
  /** Why good files are not in use yet; undefined while they are. */
  held: PolicyHold | undefined
  /** What the last table that was taken has changed; undefined before the first. */
  change: PolicyChange | undefined
}>

/**
 * `names` are files that are missing, or routes that let somebody in who was refused. `widening` is `reload.onWidening`'s
 * word; the other reasons hold whatever it says.
 */
export type PolicyHold = Readonly<{
  since: string
  reason: 'widening' | 'file_missing' | 'no_routes'
  names: readonly string[]
  widened: readonly string[]
}>

/** Ids of routes, and sentences of what somebody may do now. */
export type PolicyChange = Readonly<{
  at: string
  gained: readonly string[]
  lost: readonly string[]
  widened: readonly string[]
}>

/** One line for each mistake: `file:line:column: sentence`. */
export type PolicyTrouble = Readonly<{ since: string; message: string }>

/** The table in force, and the one that is only tried, if any. */
export type PolicyStates = Readonly<{ live: PolicyState; shadow: PolicyState | undefined }>

/** What a group says of each table: whoever has trouble first, and of the others the one whose table is the oldest. */
export function choosePolicyStates(states: readonly PolicyStates[]): PolicyStates | undefined {
  const live = chooseWorst(states.map((state) => state.live))
  return live && { live, shadow: chooseWorst(states.flatMap(({ shadow }) => shadow ?? [])) }
}

const chooseWorst = (states: readonly PolicyState[]): PolicyState | undefined =>
  [...states].sort(
    (one, other) =>
      Number(other.trouble !== undefined) - Number(one.trouble !== undefined) ||
      Number(other.held !== undefined) - Number(one.held !== undefined) ||
      (one.loadedAt ?? '').localeCompare(other.loadedAt ?? ''),
  )[0]
