/**
 * What is here already, or will be. What a cache holds is here: a promise would cost every request its room and a turn
 * of the event loop, several times over.
 */
export type Awaitable<Value> = Value | Promise<Value>

/** Goes on with a value, at once where it is here. */
export const andThen = <Value, Result>(
  value: Awaitable<Value>,
  next: (value: Value) => Awaitable<Result>,
): Awaitable<Result> => (value instanceof Promise ? value.then(next) : next(value))
