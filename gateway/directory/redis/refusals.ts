/** A command that the gateway sends. */
export type RefusableCommand = 'get' | 'publish' | 'count'

/** Told once when a Redis that can be reached begins to refuse a command, and once when it takes it again. */
export type RefusalHandlers = Readonly<{
  /** `cause` is the first word of Redis' answer, such as `NOPERM`, or `timeout`. */
  onRefused: (command: RefusableCommand, cause: string) => void
  onTaken: (command: RefusableCommand) => void
}>

export type Refusals = Readonly<{
  noteGood: (command: RefusableCommand) => void
  noteFailure: (command: RefusableCommand, error: unknown) => void
  isRefused: (command: RefusableCommand) => boolean
  /** Ends what no command has met for a while; to be called again and again. */
  review: () => void
}>

/** Some keys may be refused and others not: one good answer right after a refusal ends nothing. */
const quietMs = 5_000

/** Without a command nothing is known: the next one may begin anew. */
const forgottenMs = 60_000

/** A single late answer is no refusal, and a connection that froze is given up before. */
const lateMs = 2_000

type State = { isOpen: boolean; firstLateMs: number | undefined; lastFailureMs: number }

/** Keeps, for each command, whether a Redis that answers does not do what it is asked. */
export function createRefusals(monotonicMs: () => number, { onRefused, onTaken }: RefusalHandlers): Refusals {
  const states = new Map<RefusableCommand, State>()
  const end = (command: RefusableCommand, state: State): void => {
    states.delete(command)
    if (state.isOpen) onTaken(command)
  }
  return {
    noteGood: (command) => {
      const state = states.get(command)
      if (!state) return
      state.firstLateMs = undefined
      // All that is published has one channel.
      const isOver = command === 'publish' || monotonicMs() - state.lastFailureMs >= quietMs
      if (!state.isOpen || isOver) end(command, state)
    },
    noteFailure: (command, error) => {
      const nowMs = monotonicMs()
      const state = states.get(command) ?? { isOpen: false, firstLateMs: undefined, lastFailureMs: nowMs }
      states.set(command, state)
      const code = readCode(error)
      // One after the other: what was late long ago belongs to another matter.
      if (code === undefined && nowMs - state.lastFailureMs > lateMs) state.firstLateMs = nowMs
      if (code === undefined) state.firstLateMs ??= nowMs
      state.lastFailureMs = nowMs
      if (state.isOpen) return
      state.isOpen = code !== undefined || nowMs - (state.firstLateMs ?? nowMs) > lateMs
      if (state.isOpen) onRefused(command, code ?? 'timeout')
    },
    isRefused: (command) => states.get(command)?.isOpen ?? false,
    review: () => {
      for (const [command, state] of states) if (monotonicMs() - state.lastFailureMs >= forgottenMs) end(command, state)
    },
  }
}

/** The word that an error of Redis begins with (RESP, "Simple errors"), also where ioredis quotes it. */
export const readCode = (error: unknown): string | undefined =>
  error instanceof Error ? /\b[A-Z]{3,20}\b/.exec(error.message)?.[0] : undefined

/** An error that may be written down: what Redis says beyond its first word may name users and keys. */
export function withoutServerWords(error: unknown): unknown {
  if (!(error instanceof Error) || 'code' in error) return error
  const code = readCode(error)
  return code === undefined ? error : new Error(`Redis cannot be used: ${code}`)
}
