import t from 'tap'
import type { GuardedResource } from '../../../gateway/policy/route.ts'
import { readResourceIds } from '../../../gateway/stages/resolve/resource-ids.ts'

const object = {
  name: 'one',
  idType: 'text',
  hasOwner: false,
  hasVisibility: false,
  fingerprint: 'one',
  privateRole: undefined,
  parent: undefined,
} as const

type Place = GuardedResource['place']

const ids = (place: Place, search = '', headers: readonly string[] = [], parents: readonly string[] = []) =>
  readResourceIds(
    {
      route: { resource: { kind: 'object', object, place, parents, isPublic: false }, questions: [] },
      params: new Map([
        ['id', 'from-path'],
        ['parent_id', 'parent'],
      ]),
      target: { method: 'GET', path: '/', search, segments: [], hasEncodedSlash: false },
    },
    headers,
  )

const inPath: Place = { in: 'path', name: 'id' }
const inQuery: Place = { in: 'query', name: 'dataset' }
const inHeader: Place = { in: 'header', name: 'x-dataset-id' }

t.test(
  'no parameter of the query has the name of a path parameter that names a resource, in any spelling',
  async (t) => {
    const named = ['?id=1', '?ID=1', '?id', '?id=', '?a=1&id=2', '?a=1;id=2', '?%69d=1', '?i%64=1', '?%2569d=1']
    const decorated = [
      '?id[]=1',
      '?id[a]=1',
      '?[id]=1',
      '?+id=1',
      '?%20id=1',
      '?id%00=1',
      '?id%00%ff=1',
      '?id%20=1',
      '?%u0069d=1',
      '?;id=1',
    ]
    for (const search of [...named, ...decorated]) t.equal(ids(inPath, search), undefined, search)
    const others = [
      '?',
      '?a=id',
      '?idx=1',
      '?my_id=1',
      '?a[id]=1',
      '?a=1&&b=2',
      '?%ff=1',
      '?%=1',
      '?a=%26id=1',
      '?x-id=1',
    ]
    for (const search of others) t.same(ids(inPath, search), ['from-path'], search)
    for (const search of ['?parent_id=1', '?parent.id=1', '?parent%20id=1', '?Parent_Id[0]=1', '?parent[id=1'])
      t.equal(ids(inPath, search, [], ['parent_id']), undefined, search)
    t.equal(ids(inQuery, '?dataset=1&parent_id=2', [], ['parent_id']), undefined)
  },
)

t.test('an id of the query is there exactly once, under its own name', async (t) => {
  for (const search of [
    '?dataset=a.b',
    '?x=1&dataset=a.b',
    '?d%61taset=a.b',
    '?dataset=a%2Eb',
    '?dataset=a.b&datasets=2',
  ])
    t.same(ids(inQuery, search), ['a.b'], search)
  const others = [
    '',
    '?',
    '?x=1',
    '?dataset',
    '?dataset=',
    '?Dataset=a',
    '?dataset[]=a',
    '?x=1;dataset=a',
    '?dataset=a;x=1',
  ]
  const twice = ['?dataset=a&dataset=a', '?dataset=a&DATASET=b', '?dataset=a&d%61taset=b', '?dataset=a&dataset[]=b']
  for (const search of [...others, ...twice]) t.same(ids(inQuery, search), [''], search)
  t.same(ids(inQuery, '?dataset=%ff'), ['\u00ff'])
})

t.test('an id of a header has one line, under its own name', async (t) => {
  t.same(ids(inHeader, '', ['accept', '*/*', 'X-Dataset-Id', 'a']), ['a'])
  t.same(ids(inHeader, '?id=1', ['x-dataset-id', 'a']), ['a'])
  const others = [[], ['x-dataset', 'a'], ['x_dataset_id', 'a'], ['x-dataset-id', 'a', 'x-dataset-id', 'a']]
  for (const headers of [...others, ['x-dataset-id', 'a', 'X.Dataset_Id', 'b']])
    t.same(ids(inHeader, '', headers), [''], headers.join())
})
