import type { StreamKind } from '../errors/surface.ts'
import type { RouteMatch } from '../route/table.ts'

/** What the route says its streams speak; else the path does, in the model API's own convention. */
export function readStreamKind({ route, target }: RouteMatch): StreamKind {
  if (route.stream !== undefined) return route.stream
  const [last, beforeLast] = [target.segments.at(-1), target.segments.at(-2)]
  return beforeLast === 'chat' && last === 'completions' ? 'chat' : 'responses'
}
