import type { KnownUpstreams, UpstreamPlace } from '../policy/known-upstreams.ts'

type Written = Readonly<{ upstreams: Readonly<Record<string, Readonly<{ urls: readonly string[] }>>> }>

export const readBasePath = (url: string): string => new URL(url).pathname.replace(/\/$/, '')

export const readUpstreamAddresses = ({ upstreams }: Written): KnownUpstreams =>
  new Map(
    Object.entries(upstreams).map(([name, { urls }]): [string, UpstreamPlace] => [
      name,
      { origins: urls.map((url) => new URL(url).origin), basePath: readBasePath(urls[0] ?? '') },
    ]),
  )
