import type { Region } from '../policy/regions.ts'
import type { Method, Route } from '../policy/route.ts'
import type { RouteTable } from '../stages/route/table.ts'

/**
 * The route of a region's requests; undefined where none matches. Other readings of a path do not count: such a path is
 * refused unless the caller passes the routes of all its readings.
 */
export const findRoute = (table: RouteTable, { steps, exampleHost }: Region, method: Method): Route | undefined =>
  table.find(
    steps.map(({ text }) => text),
    method,
    exampleHost,
  )
