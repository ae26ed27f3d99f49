/** The order to an attacker, as JSON. */
export type Order = Readonly<{
  kind: 'line ends' | 'requests' | 'targets' | 'read-ahead' | 'guesses' | 'chunks' | 'streams' | 'notifications'
  origin: string
  /** Addresses of the attacker itself. */
  addresses: readonly string[]
  /** Connections at once. */
  connections: number
  /** Requests a second, where the attack has a rate; else each connection goes on as soon as it may. */
  perSecond?: number
  path?: string
  headers?: Readonly<Record<string, string>>
  databaseUrl: string
}>

/** The attacker's report when it is stopped. */
export type Told = Readonly<{
  /** Requests begun, or connections begun where the attack spends connections. */
  begun: number
  /** The count of each status; 0 stands for a connection that ended without one. */
  statuses: Readonly<Record<string, number>>
  seconds: number
  /** The part of a processor that the attacker used. */
  cpuShare: number
}>
