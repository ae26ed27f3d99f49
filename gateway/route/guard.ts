import type { Route } from '../policy/route.ts'

/** Whether whoever may pass the one may pass the other. Without a row nobody may. */
export const isGuardedAlike = (route: Route, other: Route | undefined): boolean =>
  other !== undefined &&
  (route === other ||
    (route.isPublic === other.isPublic &&
      route.role?.slug === other.role?.slug &&
      route.ability === other.ability &&
      route.organizationParam === other.organizationParam &&
      route.resource?.kind === other.resource?.kind &&
      route.resource?.param === other.resource?.param))
