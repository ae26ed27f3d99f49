import { GatewayError } from '../errors/gateway-error.ts'
import type { Method, Route } from '../policy/route.ts'
import type { RouteTable } from '../route/table.ts'
import type { Region } from './regions.ts'

/**
 * The route of a region's requests; undefined where none matches. Other readings of a path do not count: such a path is
 * refused unless the caller passes the routes of all its readings.
 */
export function findRoute(table: RouteTable, { steps, exampleHost }: Region, method: Method): Route | undefined {
  const segments = steps.map(({ text }) => text)
  const target = { method, path: '/plain', search: '', segments, hasEncodedSlash: false }
  try {
    return table.match(target, exampleHost).route
  } catch (error) {
    if (error instanceof GatewayError) return undefined
    throw error
  }
}
