import { GatewayError } from '../errors/gateway-error.ts'
import type { Method, Route } from '../policy/route.ts'
import type { RouteTable } from '../route/table.ts'
import type { Region } from './regions.ts'

/**
 * The row that a region's requests fall under, by the table that finds it for requests; undefined where there is none.
 * That servers may read a path in other ways is left out: such a path is refused unless whoever passes its row may pass
 * the rows of all its readings, so nobody gets by it what is not found here.
 */
export function findRoute(table: RouteTable, { steps, exampleHost }: Region, method: Method): Route | undefined {
  const segments = steps.map(({ text }) => text)
  // Read from a plain path, which has no other readings.
  const target = { method, path: '/plain', search: '', segments, hasEncodedSlash: false }
  try {
    return table.match(target, exampleHost).route
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}
