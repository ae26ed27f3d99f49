import type { Test } from 'tap'
import { testAllowed } from './allowed.ts'
import { testCommands } from './commands.ts'
import { testHostilePaths } from './hostile-paths.ts'
import { testOutages } from './outages.ts'
import { testRefused } from './refused.ts'
import { testSpoofed } from './spoofed.ts'
import type { Stage } from './stage.ts'
import { testStreams } from './streams.ts'

/** The particular behaviour of a proxy, as its page says. */
export type Manners = Readonly<{
  /** Whether it only asks, or leaves it to the gateway to forward. */
  forwards: 'itself' | 'by the gateway'
  /** Headers, in small letters, that it adds to what a gateway alone would send to the backend. */
  adds: readonly string[]
  /** Statuses while the proxy cannot ask the gateway, or cannot send a request on to it. */
  gatewayDown: Readonly<{ decision: number; public: number }>
  /** The status while the backend cannot be reached. */
  backendDown: number
}>

/** Every scene that a proxy in front has to play as a gateway alone does. */
export function testScenes(t: Test, stage: Stage, manners: Manners): void {
  testAllowed(t, stage, manners)
  testRefused(t, stage)
  testSpoofed(t, stage, manners)
  testHostilePaths(t, stage)
  testCommands(t, stage)
  testStreams(t, stage)
  testOutages(t, stage, manners)
}
