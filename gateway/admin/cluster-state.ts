import type { ClusterCondition } from '../locate/cluster-state.ts'

/** A cluster as its proxy sees it, as plain data. */
export type ClusterState = Readonly<{
  id: number
  organizationId: number
  slug: string
  state: ClusterCondition
  lastHeartbeatAt: string | undefined
  /** Scheme and host alone. */
  origin: string
}>

/** The first of them, and how many there are. */
export type ClusterStates = Readonly<{ clusters: readonly ClusterState[]; total: number }>
