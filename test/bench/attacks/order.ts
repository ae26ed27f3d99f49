/** The order to an attacker, as JSON. */
export type Order = Readonly<{
  kind: 'line ends' | 'requests' | 'targets' | 'read-ahead' | 'guesses'
  origin: string
  /** Its own. */
  addresses: readonly string[]
  /** Connections at once. */
  connections: number
  /** In a second, where the attack has a rate; else each connection goes on as soon as it may. */
  perSecond?: number
  path?: string
  headers?: Readonly<Record<string, string>>
}>

/** The attacker's report when it is stopped. */
export type Told = Readonly<{
  /** Requests begun, or connections where that is what is spent. */
  begun: number
  /** How often each status came; 0 for a connection that ended without one. */
  statuses: Readonly<Record<string, number>>
  seconds: number
  /** Of a processor. */
  cpuShare: number
}>
