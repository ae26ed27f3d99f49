import type { Test } from 'tap'
import { testAllowed } from './allowed.ts'
import { testCommands } from './commands.ts'
import type { IngressFixture } from './fixture.ts'
import { testHostilePaths } from './hostile-paths.ts'
import { testOutages } from './outages.ts'
import { testRefused } from './refused.ts'
import { testSpoofed } from './spoofed.ts'
import { testStreams } from './streams.ts'

/** The behavior in which proxies differ, as the page of each says. */
export type Manners = Readonly<{
  /** Whether the proxy asks the gateway and forwards the request itself, or the gateway forwards it. */
  forwards: 'itself' | 'by the gateway'
  /** Headers, in small letters, that the backend gets from this proxy and would not get from a gateway alone. */
  adds: readonly string[]
  /** The proxy's statuses while neither the decision listener nor the public listener can be reached. */
  gatewayDown: Readonly<{ decision: number; public: number }>
  /** The status while the backend cannot be reached. */
  backendDown: number
}>

/** Tests that a client and a backend see the same with this proxy in front as with the gateway alone. */
export function testScenes(t: Test, fixture: IngressFixture, manners: Manners): void {
  testAllowed(t, fixture, manners)
  testRefused(t, fixture)
  testSpoofed(t, fixture, manners)
  testHostilePaths(t, fixture)
  testCommands(t, fixture)
  testStreams(t, fixture)
  testOutages(t, fixture, manners)
}
