import { headerRole } from '../../gateway/stages/receive/header-role.ts'
import { readHeaders } from '../../gateway/stages/receive/headers.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { type Reading, readByNode } from '../http/reference-server.ts'
import { backendReadings } from '../support/backend-readings.ts'
import { type Plan, shippedPlan } from './plan.ts'
import { readCookies } from './read-cookies.ts'
import type { FuzzRequest } from './requests.ts'

/** A request as it came to the backend, read from its bytes. */
export type Arrival = Readonly<{
  requestLine: string
  /** Lines in their order, names as they came. */
  headers: readonly (readonly [name: string, value: string])[]
}>

/** The mistakes of an arrival, a sentence each. `sent` is the request that bore its mark. */
export function judge(arrival: Arrival, sent: FuzzRequest | undefined, plan: Plan = shippedPlan): readonly string[] {
  const [, method = '', target = ''] = /^([A-Z]+) (\S+) HTTP\/1\.1$/.exec(arrival.requestLine) ?? []
  if (method === '') return ['the request line is not canonical']
  return [
    ...judgeTarget(target, plan),
    ...judgeHeaders(arrival),
    ...(sent ? [...judgeOrigin(arrival, method, sent), ...judgePath(arrival, target, sent, plan)] : []),
  ]
}

function judgeTarget(target: string, { isProtected }: Plan): readonly string[] {
  if (!/^\/[\x21\x22\x24-\x7e]*$/.test(target)) return ['the target is not in origin form']
  const [path = ''] = target.split('?', 1)
  return backendReadings
    .filter(({ read }) => isProtected(read(path)))
    .map(({ name }) => `read ${name}, the target is protected`)
}

function judgeHeaders({ headers }: Arrival): readonly string[] {
  const problems: string[] = []
  const counts = new Map<string, number>()
  for (const [name, value] of headers) {
    const canonical = name.toLowerCase().replace(/[^a-z0-9]/g, '-')
    counts.set(canonical, (counts.get(canonical) ?? 0) + 1)
    if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) problems.push(`${JSON.stringify(name)} is no token`)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not arrive
    if (/[\x00-\x08\x0a-\x1f\x7f]/.test(value)) problems.push(`${name} has a control byte`)
    if (canonical !== name.toLowerCase() && headerRole(name).kind !== 'pass') problems.push(`${name} is an alias`)
    if (headerRole(name).kind === 'override') problems.push(`${name} may override`)
    if (/^(?:authorization|x-oauth-access-token|proxy-.*|forwarded|upgrade|te|trailer|keep-alive)$/.test(canonical))
      problems.push(`${name} arrived`)
    if (/forged|192\.0\.2\.1|evil/.test(value)) problems.push(`${name} is the client’s word`)
  }
  const host = headers.find(([name]) => name.toLowerCase() === 'x-forwarded-host')?.[1] ?? ''
  if (host !== '' && !soundHost.test(host)) problems.push(`${host} is no host`)
  for (const once of [
    'host',
    'x-gateway-identity',
    'x-request-id',
    'x-forwarded-for',
    'x-forwarded-host',
    'x-forwarded-proto',
  ])
    if (counts.get(once) !== 1) problems.push(`${counts.get(once) ?? 0} lines of ${once}`)
  if ((counts.get('x-organization-id') ?? 0) > 1) problems.push('more than one organization')
  if ((counts.get('content-length') ?? 0) + (counts.get('transfer-encoding') ?? 0) > 1) problems.push('two lengths')
  return problems
}

/** A name, an IPv4 or a bracketed IPv6 address, and a port at most. */
const soundHost = /^(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i

type Claims = Readonly<{ sub: string; organization: Readonly<{ id: number }> | null }>

function judgePath({ headers }: Arrival, target: string, sent: FuzzRequest, plan: Plan): readonly string[] {
  const problems: string[] = []
  const judged = sent.target.replace(/^https?:\/\/h(?=\/)/i, '')
  if (target !== plan.forward(judged)) problems.push(`${sent.target} became ${target}`)
  const prefix = plan.prefixOf(judged)
  const told = headers.filter(([name]) => name.toLowerCase() === 'x-forwarded-prefix').map(([, value]) => value)
  if (told.join() !== (prefix ?? '')) problems.push(`the prefix ${told.join()} is told`)
  return problems
}

function judgeOrigin(arrival: Arrival, method: string, sent: FuzzRequest): readonly string[] {
  const problems: string[] = []
  if (method !== sent.method) problems.push(`${sent.method} became ${method}`)
  const find = (wanted: string) => arrival.headers.find(([name]) => name.toLowerCase() === wanted)?.[1]
  const [, payload = ''] = (find('x-gateway-identity') ?? '').split('.')
  const claims = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8') || '{}') as Claims
  // Another caller's credential may stand in the lines; with one beside it the request was ambiguous, and refused.
  const speaks = sent.caller ?? undefined
  if (speaks && claims.sub !== String(speaks.userId)) problems.push(`${speaks.name} became the user ${claims.sub}`)
  if ((find('x-organization-id') ?? '') !== String(claims.organization?.id ?? ''))
    problems.push('the organization differs from the one that is signed')
  // A header wins over every cookie.
  if (!sent.lines.some((line) => /^x-organization-id *:/i.test(line)))
    for (const read of readCookies(
      arrival.headers.filter(([name]) => /^cookie$/i.test(name)).map(([, value]) => value),
    ))
      if (read !== String(claims.organization?.id)) problems.push(`a server reads a cookie as the organization ${read}`)
  return problems
}

/** The mistakes of an arrival that node:http does not read in the bytes that were sent. */
export async function judgeByReference(
  { requestLine }: Arrival,
  sent: Buffer,
  plan: Plan = shippedPlan,
): Promise<readonly string[]> {
  const { requests } = await readByNode([sent])
  const isRead = requests.some((request) => toRequestLine(request, plan) === requestLine)
  return isRead ? [] : ['node:http reads no such request']
}

/** The request line as it goes out; undefined for one that the gateway's rules refuse. */
function toRequestLine(request: Reading, { forward }: Plan): string | undefined {
  try {
    const { path, search } = readTarget(request.method, request.target, readHeaders(request).host)
    return `${request.method} ${forward(`${path}${search}`)} HTTP/1.1`
  } catch {
    return undefined
  }
}
