import { describeQuestion } from '../../policy/questions.ts'
import { describeRateLimit, type RateLimit } from '../../policy/rate-limit.ts'
import { parsePattern, type Route, timeoutNames } from '../../policy/route.ts'
import { levelsOf, listWidened, routeFields } from './classified-fields.ts'

/** `widens` is left out where the change admits no request and leads none elsewhere. */
export type RouteDifference = Readonly<{ what: string; old: string; new: string; widens?: true }>

export function compareRoutes(old: Route, fresh: Route): readonly RouteDifference[] {
  const before = describeRoute(old)
  const after = describeRoute(fresh)
  const wider = listWidened(routeFields, old, fresh)
  return Object.keys(before).flatMap((what) => {
    const difference = { what, old: before[what] ?? '', new: after[what] ?? '' }
    if (difference.old === difference.new) return []
    return [wider.includes(what) ? { ...difference, widens: true as const } : difference]
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
    ids: describeIds(route),
    surface: route.surface,
    stream: describeStream(route),
    // A public route sends no identity, even for a caller who could authenticate.
    identity: route.isPublic ? 'none' : 'sent',
    websocket: route.isWebSocket ? 'joined' : 'no',
    keepAlive: route.isKeptAlive ? 'yes' : 'no',
    decision: nameQuestions(route).join(', ') || 'none',
    rateLimit: route.rateLimit ? describeBudget(route.rateLimit) : 'none',
    encodedSlashes: route.takesEncodedSlashes ? 'allow' : 'refuse',
    ...Object.fromEntries(Object.entries(numbers).map(([name, value]) => [name, value?.toString() ?? 'usual'])),
  }
}

const describeStream = ({ stream }: Route): string =>
  stream ? `${stream.kind}${stream.end === 'finishReason' ? ', ends by finish_reason' : ''}` : 'by path'

const describeBudget = (limit: RateLimit): string =>
  `${describeRateLimit(limit)}${limit.onError === 'deny' ? ', refused on errors' : ''}`

const describeIds = (route: Route): string =>
  levelsOf(route)
    .map(({ name, idType }) => `${name} by ${idType}`)
    .join(', ') || 'none'

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
const nameQuestions = ({ questions, path, id }: Route): readonly string[] =>
  questions.map((question) => {
    const { about } = question
    const placed =
      about.from === 'path'
        ? { ...question, about: { ...about, param: `{segment ${placeOfParam(path, about.param)}}` } }
        : question
    return `${describeQuestion(placed)}, as route ${id}`
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
