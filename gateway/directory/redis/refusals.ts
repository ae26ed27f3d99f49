export type RefusableCommand = 'get' | 'publish' | 'count'

export type RefusalHandlers = Readonly<{
  onRefused: (command: RefusableCommand, cause: string) => void
  onTaken: (command: RefusableCommand) => void
}>

export type Refusals = Readonly<{
  noteGood: (command: RefusableCommand) => void
  noteFailure: (command: RefusableCommand, error: unknown) => void
  isRefused: (command: RefusableCommand) => boolean
  review: () => void
}>

/** Redis may refuse some keys only, so one success right after a refusal ends nothing. */
const quietMs = 5_000

/** Without commands the state is unknown, so the next command starts anew. */
const forgottenMs = 60_000

/** One late response is not a refusal, and a frozen connection is replaced before. */
const lateMs = 2_000

type State = { isOpen: boolean; firstLateMs: number | undefined; lastFailureMs: number }

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
      const isOver = command === 'publish' || monotonicMs() - state.lastFailureMs >= quietMs
      if (!state.isOpen || isOver) end(command, state)
    },
    noteFailure: (command, error) => {
      const nowMs = monotonicMs()
      const state = states.get(command) ?? { isOpen: false, firstLateMs: undefined, lastFailureMs: nowMs }
      states.set(command, state)
      const code = readCode(error)
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

/** The word that an error of Redis begins with (RESP, "Simple errors"), also if ioredis quotes it. */
export const readCode = (error: unknown): string | undefined =>
  error instanceof Error ? /\b[A-Z]{3,20}\b/.exec(error.message)?.[0] : undefined

/** Hides the rest of a Redis error, which may name users and keys. */
export function withoutServerWords(error: unknown): unknown {
  if (!(error instanceof Error) || 'code' in error) return error
  const code = readCode(error)
  return code === undefined ? error : new Error(`Redis cannot be used: ${code}`)
}
