export type WaitingShares = Readonly<{
  /** Takes a place, and returns how to give it back; undefined if the owner has all of its share. */
  enter: (upstream: string, owner: number | string) => (() => void) | undefined
  /** The requests of the owner that has the most, by upstream. */
  readMost: () => ReadonlyMap<string, number>
}>

/**
 * Counts requests that wait for the first byte of a model. It may take ten minutes, so that without a share one
 * organization could hold all connections to upstreams by a model that is silent.
 */
export function createWaitingShares(most: number): WaitingShares {
  const upstreams = new Map<string, Map<number | string, number>>()
  const leave = (upstream: string, owner: number | string): void => {
    const owners = upstreams.get(upstream)
    const count = (owners?.get(owner) ?? 0) - 1
    if (count > 0) owners?.set(owner, count)
    else owners?.delete(owner)
    if (owners?.size === 0) upstreams.delete(upstream)
  }
  return {
    enter: (upstream, owner) => {
      const owners = upstreams.get(upstream) ?? new Map<number | string, number>()
      const count = owners.get(owner) ?? 0
      if (count >= most) return undefined
      owners.set(owner, count + 1)
      upstreams.set(upstream, owners)
      return () => leave(upstream, owner)
    },
    readMost: () => new Map([...upstreams].map(([upstream, owners]) => [upstream, Math.max(...owners.values())])),
  }
}
