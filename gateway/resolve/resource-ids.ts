import { type GuardedResource, listPathNames } from '../policy/route.ts'
import type { RouteMatch } from '../route/table.ts'

type Named = Pick<RouteMatch, 'params' | 'target'> & Readonly<{ route: Pick<RouteMatch['route'], 'resource'> }>

/**
 * Reads the ids of the guarded resource and its ancestors, nearest first. An id that is missing, or not the only one, is
 * empty. Undefined if a backend could take an id of the query for one of the path.
 * @param headers Names and values in turn, as the upstream gets them.
 */
export function readResourceIds({ route, params, target }: Named, headers: readonly string[]): IdTexts | undefined {
  const { resource } = route
  if (!resource) return []
  const query = target.search === '' ? noParameters : readParameters(target.search)
  if (query.length > 0 && listPathNames(resource).some((name) => findNamed(query, name).length > 0)) return undefined
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

type Parameter = Readonly<{ name: string; reading: string; value: string; isPlain: boolean }>

const noParameters: readonly Parameter[] = []

const findNamed = (query: readonly Parameter[], name: string): readonly Parameter[] => {
  const wanted = readAsServers(name)
  return query.filter(({ reading }) => reading === wanted)
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
      parameters.push({ name, value, isPlain, reading: readAsServers(decodeForm(name)) })
    }
  }
  return parameters
}

/** Bytes outside of UTF-8 become a character that neither a name nor an id may have. */
function decodeForm(text: string): string {
  const spaced = text.replaceAll('+', ' ')
  if (!spaced.includes('%')) return spaced
  try {
    return decodeURIComponent(spaced.replace(/%(?![0-9a-f]{2})/gi, '%25'))
  } catch {
    return '\ufffd'
  }
}

/**
 * ASP.NET ignores case and decodes `%uXXXX`. PHP reads dots and spaces as `_`, and cuts a name at its bracket, as Rack
 * and qs do.
 */
function readAsServers(name: string): string {
  const decoded = name.replace(/%u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
  const [word = ''] = /[\w-][\w. -]*/.exec(decoded) ?? []
  return word.trimEnd().replace(/[. ]/g, '_').toLowerCase()
}
