/** The routes of a run, and what its judge has to know about them. */
export type Plan = Readonly<{
  /** Routes in place of the shipped ones. */
  routes?: readonly Readonly<Record<string, unknown>>[]
  upstreams: (backend: string) => Readonly<Record<string, Readonly<{ url: string }>>>
  /** Beginnings of targets that mostly lead somewhere, and names for all others. */
  starts: readonly string[]
  words: readonly string[]
  /** The target that the backend gets for one in origin form. */
  forward: (target: string) => string | undefined
  /** The value of `X-Forwarded-Prefix` that is due. */
  prefixOf: (target: string) => string | undefined
  /** Whether no caller of the run may reach this path of the backend. */
  isProtected: (path: string) => boolean
}>

export const shippedPlan: Plan = {
  upstreams: (backend) =>
    Object.fromEntries(['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [name, { url: backend }])),
  starts: ['/public/', '/public/', '/admin/', '/datasets/', '/public/a/', '/users/'],
  words: [],
  forward: (target) => target,
  prefixOf: () => undefined,
  isProtected: (path) => /^\/+admin(?:\/|;|$)/i.test(path),
}
