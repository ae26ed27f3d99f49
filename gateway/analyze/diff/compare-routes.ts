import { describeQuestion } from '../../policy/questions.ts'
import { describeRateLimit } from '../../policy/rate-limit.ts'
import { parsePattern, type Route, timeoutNames } from '../../policy/route.ts'

export type RouteDifference = Readonly<{ what: string; old: string; new: string }>

export function compareRoutes(old: Route, fresh: Route): readonly RouteDifference[] {
  const before = describeRoute(old)
  const after = describeRoute(fresh)
  return Object.keys(before).flatMap((what) => {
    const difference = { what, old: before[what] ?? '', new: after[what] ?? '' }
    return difference.old === difference.new ? [] : [difference]
  })
}

function describeRoute(route: Route): Readonly<Record<string, string>> {
  const numbers = {
    'limits.headerBytes': route.headLimits.headerBytes,
    'limits.targetBytes': route.headLimits.targetBytes,
    'limits.bodyBytes': route.bodyLimitBytes,
    ...Object.fromEntries(timeoutNames.map((name) => [`timeouts.${name}`, route.timeouts[name]])),
  }
  return {
    destination: describeDestination(route),
    upstreamPath: describeUpstreamPath(route),
    surface: route.surface,
    stream: route.stream ?? 'by path',
    // A public route sends no identity, even for a caller who could authenticate.
    identity: route.isPublic ? 'none' : 'sent',
    websocket: route.isWebSocket ? 'joined' : 'no',
    keepAlive: route.isKeptAlive ? 'yes' : 'no',
    decision: nameQuestions(route).join(', ') || 'none',
    rateLimit: route.rateLimit ? describeRateLimit(route.rateLimit) : 'none',
    encodedSlashes: route.takesEncodedSlashes ? 'allow' : 'refuse',
    ...Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, value?.toString() ?? 'usual'])),
  }
}

function describeUpstreamPath({ rewrite, path }: Route): string {
  if (!rewrite) return 'as received'
  const pattern = parsePattern(path)
  const words = rewrite.path.split('/').map((text) => {
    const place = pattern.findIndex((segment) => segment.kind === 'param' && `:${segment.name}` === text)
    return place < 0 ? text : `{segment ${place + 1}}`
  })
  const { strippedPrefix } = rewrite
  return `${words.join('/')}${strippedPrefix === undefined ? '' : `, without ${strippedPrefix}`}`
}

/** A parameter is described by its place in the path, since its name may change without effect. */
export const nameQuestions = ({ questions, path, id }: Route): readonly string[] =>
  questions.map((question) => {
    const { about } = question
    if (about.from === 'route') return `${describeQuestion(question)} ${id}`
    return about.from === 'path'
      ? describeQuestion({ ...question, about: { ...about, param: `{segment ${placeOfParam(path, about.param)}}` } })
      : describeQuestion(question)
  })

const placeOfParam = (path: string, param: string): number =>
  parsePattern(path).findIndex((segment) => segment.kind === 'param' && segment.name === param) + 1

function describeDestination({ destination, path }: Route): string {
  switch (destination.kind) {
    case 'upstream':
    case 'answer':
      return `${destination.kind} ${destination.name}`
    case 'cluster':
      return `cluster in segment ${placeOfParam(path, destination.param)}`
    default:
      return destination satisfies never
  }
}
