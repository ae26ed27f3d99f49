import fc from 'fast-check'
import { aliasLines, cookieLines, hosts } from './advisory-lines.ts'
import { type Plan, shippedPlan } from './plan.ts'
import { oddLines, queries, segments, separators, starts } from './vocabulary.ts'

/** The caller of a generated request: its header, and the identity that a backend must then get. */
export type Caller = Readonly<{ name: string; header: readonly [name: string, value: string]; userId: number }>

/** Bytes to send on one connection, and what stood in them. */
export type FuzzRequest = Readonly<{
  method: string
  target: string
  caller: Caller | undefined
  lines: readonly string[]
  version: string
  lineEnd: string
  body: string
}>

const pick = <Value>(values: readonly Value[]): fc.Arbitrary<Value> => fc.constantFrom(...values)

function wildTargets(words: readonly string[]): fc.Arbitrary<string> {
  const anyOf = pick([...segments, ...words])
  return fc
    .tuple(pick(starts), fc.array(fc.tuple(anyOf, pick(separators)), { maxLength: 5 }), anyOf, pick(queries))
    .map(([start, parts, last, query]) => `${start}${parts.flat().join('')}${last}${query}`)
}

const tameNames = ['x', 'a..b', '%20y', 'a%25b', 'x;y', '%C3%A9', '~!$&()*', 'x/', '...', 'me', '1']

const tameTargets = ({ starts, words }: Plan): fc.Arbitrary<string> =>
  fc
    .tuple(pick(starts), pick([...tameNames, ...words]), pick(queries.filter((query) => !/[#\xe9]/.test(query))))
    .map((parts) => parts.join(''))

const smuggled = (target: string, lines: readonly string[]): string =>
  `GET ${target} HTTP/1.1\r\nHost: h\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`

const bodies = [
  '',
  '',
  '',
  'hello',
  '5\r\nhello\r\n0\r\n\r\n',
  '0\r\n\r\n',
  '5;x=y\r\nhello\r\n0\r\nX-T: u\r\n\r\n',
  '{"a":1}',
]

const wellKnownMethods = ['GET', 'GET', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS']
const odderMethods = ['TRACE', 'CONNECT', 'get', 'BREW', 'PRI', 'GET ', 'G\x00T', 'PROPFIND', '']

/** One in a few is wholly proper, so that much of what is sent does get through. */
export function fuzzRequests(callers: readonly Caller[], plan: Plan = shippedPlan): fc.Arbitrary<FuzzRequest> {
  const odd = [...oddLines, ...callers.map(({ header: [name, value] }) => `${name}: ${value}`)]
  const forbidden = callers.map(({ header: [name, value] }) => smuggled('/admin/smuggled', [`${name}: ${value}`]))
  const often = <Value>(tame: fc.Arbitrary<Value>, wild: fc.Arbitrary<Value>, weight: number): fc.Arbitrary<Value> =>
    fc.oneof({ weight, arbitrary: tame }, { weight: 1, arbitrary: wild })
  const hostLine = often(fc.constant('Host: h'), pick(hosts.map((host) => `Host: ${host}`)), 8).map((line) => [line])
  const anyLine = fc.oneof(
    { weight: 4, arbitrary: pick(odd) },
    { weight: 1, arbitrary: pick(aliasLines) },
    { weight: 1, arbitrary: pick(cookieLines) },
  )
  return fc.record({
    method: often(pick(wellKnownMethods), pick(odderMethods), 15),
    target: often(tameTargets(plan), wildTargets(plan.words), 2),
    caller: fc.option(pick(callers), { freq: 8, nil: undefined }),
    lines: often(hostLine, fc.constant<readonly string[]>([]), 12).chain((host) =>
      fc
        .oneof(
          { weight: 2, arbitrary: fc.constant<readonly string[]>([]) },
          { weight: 3, arbitrary: fc.array(anyLine, { minLength: 1, maxLength: 3 }) },
        )
        .map((lines) => [...host, ...lines]),
    ),
    version: often(fc.constant('HTTP/1.1'), pick(['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', '']), 20),
    lineEnd: often(fc.constant('\r\n'), pick(['\n', '\r', '\r\n ']), 30),
    body: often(pick(bodies), pick([...forbidden, ...forbidden.map((request) => `0\r\n\r\n${request}`)]), 6),
  })
}

/** The bytes, with a mark by which an arrival is known again. */
export function toBytes({ method, target, caller, lines, version, lineEnd, body }: FuzzRequest, mark: string): Buffer {
  const credential = caller ? [`${caller.header[0]}: ${caller.header[1]}`] : []
  const head = [`${method} ${target} ${version}`, ...credential, ...lines, `x-mark: ${mark}`]
  return Buffer.from(`${head.join(lineEnd)}${lineEnd}${lineEnd}${body}`, 'latin1')
}
