import { type GuardedResource, listAskedNames, listPathNames } from '../../policy/route.ts'
import type { RouteMatch } from '../route/table.ts'

type Named = Pick<RouteMatch, 'params' | 'target'> &
  Readonly<{ route: Pick<RouteMatch['route'], 'resource' | 'questions'> }>

/**
 * Reads the ids of the guarded resource and its ancestors, nearest first. An id that is missing, or not the only one, is
 * empty. Undefined if a backend could take an id of the query for one of the path.
 * @param headers Names and values in turn, as the upstream gets them.
 */
export function readResourceIds({ route, params, target }: Named, headers: readonly string[]): IdTexts | undefined {
  const { resource, questions } = route
  if (!resource && questions.length === 0) return []
  const pathNames = [...(resource ? listPathNames(resource) : []), ...listAskedNames(questions)]
  const isRead = target.search !== '' && (pathNames.length > 0 || resource?.place.in === 'query')
  const query = isRead ? readParameters(target.search) : noParameters
  if (query.length > 0 && pathNames.some((name) => findNamed(query, name).length > 0)) return undefined
  if (!resource) return []
  const id = readId(resource, params, query, headers)
  if (resource.kind === 'agent' || resource.parents.length === 0) return [id]
  return [id, ...resource.parents.map((name) => params.get(name) ?? '')]
}

type IdTexts = readonly string[]

function readId(
  { place }: GuardedResource,
  params: RouteMatch['params'],
  query: readonly Parameter[],
  headers: readonly string[],
): string {
  switch (place.in) {
    case 'path':
      return params.get(place.name) ?? ''
    case 'header':
      return readHeaderId(headers, place.name)
    case 'query': {
      const [only, ...others] = findNamed(query, place.name)
      return only?.isPlain && only.name === place.name && others.length === 0 ? only.value : ''
    }
    default:
      return place.in satisfies never
  }
}

/** CGI reads several characters of a header's name as one, so another spelling of the name is another value. */
export function readHeaderId(headers: readonly string[], wanted: string): string {
  let value = ''
  let count = 0
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index]?.toLowerCase() ?? ''
    if (name.replace(/[^a-z0-9]/g, '-') !== wanted) continue
    count += 1
    if (name === wanted) value = headers[index + 1] ?? ''
  }
  return count === 1 ? value : ''
}

type Parameter = Readonly<{ name: string; word: string; whole: string; value: string; isPlain: boolean }>

const noParameters: readonly Parameter[] = []

const findNamed = (query: readonly Parameter[], name: string): readonly Parameter[] => {
  const wanted = name.toLowerCase()
  return query.filter(({ word, whole }) => word === wanted || whole === wanted)
}

/** Servers part a query at `&`, and some at `;` too. A pair with `;` has two readings. */
function readParameters(search: string): readonly Parameter[] {
  const parameters: Parameter[] = []
  for (const pair of search.slice(1).split('&')) {
    const isPlain = !pair.includes(';')
    for (const part of pair.split(';')) {
      if (part === '') continue
      const equals = part.indexOf('=')
      const name = decodeForm(equals < 0 ? part : part.slice(0, equals))
      const value = equals < 0 ? '' : decodeForm(part.slice(equals + 1))
      parameters.push({ name, value, isPlain, ...readAsServers(decodeForm(name)) })
    }
  }
  return parameters
}

/** Text outside of UTF-8 is taken byte by byte: PHP and others read the name before such bytes. */
function decodeForm(text: string): string {
  const spaced = text.replaceAll('+', ' ')
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced.replace(/%(?![0-9a-f]{2})/gi, '%25'))
  } catch {
    return spaced.replace(/%([0-9a-f]{2})/gi, toCharacter)
  }
}

const toCharacter = (_: string, code: string): string => String.fromCharCode(Number.parseInt(code, 16))

/**
 * ASP.NET ignores case and decodes `%uXXXX`. Rack, qs and PHP cut a name at its bracket. PHP reads dots, spaces and an
 * open bracket as `_`, and ends a name at NUL.
 */
function readAsServers(name: string): Pick<Parameter, 'word' | 'whole'> {
  const decoded = name.replace(/%u([0-9a-f]{4})/gi, toCharacter)
  const [word = ''] = /[\w-][\w. -]*/.exec(decoded) ?? []
  const [whole = ''] = decoded.split('\0', 1)
  return { word: foldName(word.trimEnd()), whole: foldName(whole.trimStart()) }
}

const foldName = (text: string): string => text.replace(/[. []/g, '_').toLowerCase()
