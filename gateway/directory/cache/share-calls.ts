/** Calls with the same name that come while one is under way share its result. */
export function shareCalls<Input, Result>(nameOf: (input: Input) => string, call: (input: Input) => Promise<Result>) {
  const pending = new Map<string, Promise<Result>>()
  return (input: Input): Promise<Result> => {
    const name = nameOf(input)
    const shared = pending.get(name)
    if (shared !== undefined) return shared
    const result = call(input).finally(() => pending.delete(name))
    pending.set(name, result)
    return result
  }
}
