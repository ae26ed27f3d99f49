import { isLabel, wildcardDomain } from '../policy/host.ts'
import type { DeclaredOrganizations } from '../policy/organizations.ts'
import type { Route } from '../policy/route.ts'

/** Routes and declared organizations that a reader would expect under a label, and that are not. */
export function warnOfHostLabels(
  routes: readonly Route[],
  { bySlug }: Pick<DeclaredOrganizations, 'bySlug'>,
): readonly Readonly<{ source: string; message: string }>[] {
  const labelled = new Map(
    routes.flatMap((route) => (route.hostLabel === undefined ? [] : [[route.host ?? '', route] as const])),
  )
  const mixed = routes.flatMap(({ id, source, host = '', hostLabel, isPublic, organizationParam, destination }) => {
    const other = labelled.get(host)
    if (!other || hostLabel || isPublic || organizationParam !== undefined || destination.kind === 'answer') return []
    const message = `route "${id}" takes the organization from header or cookie, and "${other.id}" from the label of the same host`
    return [{ source, message }]
  })
  const exact = new Set(routes.flatMap(({ host }) => host ?? []))
  const unnamed = [...labelled.keys()].flatMap((pattern) =>
    [...bySlug.keys()]
      .filter((slug) => !isLabel(slug) || exact.has(`${slug}.${wildcardDomain(pattern)}`))
      .map((slug) => ({
        source: 'organizations',
        message: isLabel(slug)
          ? `organization "${slug}" is never named by "${pattern}", since routes have that very host`
          : `organization "${slug}" is never named by "${pattern}", since its slug is not a lower-case DNS label`,
      })),
  )
  return [...mixed, ...unnamed]
}
