export type UpstreamPlace = Readonly<{ origins: readonly string[]; basePath: string }>

export type KnownUpstreams = Readonly<{
  has: (name: string) => boolean
  keys: () => Iterable<string>
  get?: (name: string) => UpstreamPlace | undefined
}>

/** Names one place for all upstreams that share an origin, since their paths reach one backend. */
export function nameSharedPlaces(upstreams: KnownUpstreams): (name: string) => string {
  const parents = new Map<string, string>()
  const rootOf = (origin: string): string => {
    const parent = parents.get(origin)
    return parent === undefined ? origin : rootOf(parent)
  }
  const originsOf = (name: string): readonly string[] => upstreams.get?.(name)?.origins ?? []
  for (const name of upstreams.keys()) {
    const [first, ...others] = originsOf(name)
    for (const other of others)
      if (first !== undefined && rootOf(other) !== rootOf(first)) parents.set(rootOf(other), rootOf(first))
  }
  return (name) => {
    const [first] = originsOf(name)
    return first === undefined ? name : rootOf(first)
  }
}
