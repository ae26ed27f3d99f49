/** The scope that ends with its parts: a tap test, or a program with a list of its own. */
export type Owner = Readonly<{ teardown: (end: () => unknown) => unknown }>

/** Runs work that owns what it starts, and ends all of it afterwards, the latest first. */
export async function withOwner<Result>(work: (owner: Owner) => Promise<Result>): Promise<Result> {
  const ends: (() => unknown)[] = []
  try {
    return await work({ teardown: (end) => ends.push(end) })
  } finally {
    await endAll(ends)
  }
}

/** One that cannot be ended must not keep the others. */
async function endAll(ends: (() => unknown)[]): Promise<void> {
  const end = ends.pop()
  if (!end) return
  try {
    await end()
  } finally {
    await endAll(ends)
  }
}
