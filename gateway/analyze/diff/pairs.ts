import type { Policy } from '../../policy/compile.ts'
import type { Route } from '../../policy/route.ts'

export type RoutePair = Readonly<{ old: Route | undefined; new: Route | undefined }>

export type PolicyPair = Readonly<{ old: Policy; new: Policy }>
