export type SharedCalls<Input, Result> = Readonly<{
  call: (input: Input) => Promise<Result>
  forget: () => void
}>

export function singleFlight<Input, Result>(
  nameOf: (input: Input) => string,
  call: (input: Input) => Promise<Result>,
): SharedCalls<Input, Result> {
  const pending = new Map<string, Promise<Result>>()
  return {
    call: (input) => {
      const name = nameOf(input)
      const shared = pending.get(name)
      if (shared !== undefined) return shared
      const result = call(input).finally(() => {
        if (pending.get(name) === result) pending.delete(name)
      })
      pending.set(name, result)
      return result
    },
    forget: () => pending.clear(),
  }
}
