import fc from 'fast-check'
import t from 'tap'
import type { ResourceKind } from '../../gateway/policy/resource-kind.ts'
import type { GuardedResource } from '../../gateway/policy/route.ts'
import { readResourceIds } from '../../gateway/stages/resolve/resource-ids.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { parameterName, queryParsers } from './query-parsers.ts'

const object: ResourceKind = {
  ...{ name: 'record', idType: 'text', hasOwner: false, hasVisibility: false, fingerprint: 'record' },
  ...{ privateRole: undefined, parent: undefined },
}

function readIds(place: GuardedResource['place'], query: string): readonly string[] | undefined {
  const resource = { kind: 'object', object, place, parents: [], isPublic: false } as const
  const target = { method: 'GET', path: '/', search: `?${query}`, segments: [], hasEncodedSlash: false }
  return readResourceIds({ route: { resource, questions: [] }, params: new Map([[parameterName, 'good']]), target }, [])
}

/** The id that is judged, or a refusal: an empty id is 404, and none at all 400. */
const judgeQuery = (query: string): string => readIds({ in: 'query', name: parameterName }, query)?.[0] || 'refused'
const judgePath = (query: string): string => readIds({ in: 'path', name: parameterName }, query)?.[0] ?? 'refused'

/** Names that some server reads as `record_id`, and names near to those. */
const misread = [
  ...['record[id', 'record%5Bid', '%20record[id', 'record_id%00%ff', 'record[id%00%80x', 'record_id[%ff]', 'record.id'],
  ...['record+id', '[record_id', ']record_id', 'record_id]', 'record_id[a][b]', 'record_id%00', 'record%255fid', ''],
  ...['record_id;x', 'x;record_id', 'record%u005fid', 'record_id%20', '%09record_id', 'a[record_id]', 'record-id'],
]

const piece = fc.constantFrom(
  ...['record', 'id', '_', 'record_id', 'RECORD', 'x', '.', '[', ']', '[]', '%5B', '%5d', '%5F', '%2e', '+', '%20'],
  ...['%00', '%ff', '%80', '%C3%A9', '%25', '%3D', '%26', '%3B', ';', '-', '!', '(', '"', '%09', '%0a', '%E2%80%8B'],
)
const near = fc.tuple(fc.array(piece, { maxLength: 2 }), piece, piece, fc.array(piece, { maxLength: 2 }))
const apart = fc
  .tuple(fc.constantFrom('record', '%72ecord', '+record'), piece, fc.constantFrom('id', 'i%64', 'id[', 'id%00'))
  .map((parts) => parts.join(''))
const anyName = fc.oneof(
  near.map((parts) => parts.flat().join('')),
  apart,
)
const names = [...misread, ...fc.sample(anyName, { numRuns: 3_000, seed: 20 })]

/** After the good one, before it, and alone. */
const queries = names.flatMap((name) => [
  `${parameterName}=good&${name}=evil`,
  `${name}=evil&${parameterName}=good`,
  `${name}=evil`,
])

for (const { name, lack, readAll } of queryParsers)
  testUnlessLacking(
    t,
    `an id that ${name} reads in a query is the one that is judged`,
    async (t) => {
      let compared = 0
      for (const [index, values] of readAll(queries).entries()) {
        const query = queries[index] ?? ''
        const [ofQuery, ofPath] = [judgeQuery(query), judgePath(query)]
        if (values.length > 0) compared += 1
        if (ofQuery !== 'refused' && values.some((value) => value !== ofQuery))
          t.fail(`${query}: ${JSON.stringify(values)}, and here ${ofQuery}`)
        if (ofPath !== 'refused' && values.length > 0) t.fail(`${query}: ${JSON.stringify(values)} beside the path`)
      }
      t.ok(compared > 3_000, `${compared} queries name one`)
    },
    lack,
  )

t.test('many of the generated queries are accepted', async (t) => {
  t.ok(queries.filter((query) => judgeQuery(query) === 'good').length > 500)
  t.ok(queries.filter((query) => judgePath(query) === 'good').length > 500)
})
