/**
 * A value, or a promise of one. A cached value needs no promise, which would cost each request memory and a turn of the
 * event loop.
 */
export type Awaitable<Value> = Value | Promise<Value>

export const andThen = <Value, Result>(
  value: Awaitable<Value>,
  next: (value: Value) => Awaitable<Result>,
): Awaitable<Result> => (value instanceof Promise ? value.then(next) : next(value))
