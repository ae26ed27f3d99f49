import type { ClusterCondition } from '../../stages/locate/cluster-state.ts'

export type ClusterState = Readonly<{
  id: number
  organizationId: number
  slug: string
  state: ClusterCondition
  lastHeartbeatAt: string | undefined
  origin: string
}>

export type ClusterStates = Readonly<{ clusters: readonly ClusterState[]; total: number }>
