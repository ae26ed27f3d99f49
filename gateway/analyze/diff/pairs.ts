import type { Policy } from '../../policy/compile.ts'
import type { Route } from '../../policy/route.ts'

/** The routes that match the same requests in two policies; undefined where a policy has none. */
export type RoutePair = Readonly<{ old: Route | undefined; new: Route | undefined }>

export type PolicyPair = Readonly<{ old: Policy; new: Policy }>
