import t from 'tap'
import { type Change, formatChange, parseChanges } from '../../gateway/directory/change.ts'

const everything: Change = { kind: 'everything' }

t.test('a message is read as it was written', async (t) => {
  for (const kind of ['user', 'token', 'organization', 'members', 'agent', 'cluster'] as const)
    for (const id of [0, 1, 2_147_483_647]) t.same(parseChanges(formatChange({ kind, id })), [{ kind, id }])
  t.same(parseChanges(formatChange(everything)), [everything])
})

t.test('spaces as PostgreSQL writes them, and unknown members, are ignored', async (t) => {
  t.same(parseChanges('{"kind" : "user", "id" : 7}'), [{ kind: 'user', id: 7 }])
  t.same(parseChanges('{"id":7,"by":"somebody","kind":"token"}'), [{ kind: 'token', id: 7 }])
})

t.test('a list names several records', async (t) => {
  t.same(parseChanges('{"kind" : "user", "ids" : [7, 8]}'), [
    { kind: 'user', id: 7 },
    { kind: 'user', id: 8 },
  ])
})

t.test('a message that is not understood tells of everything', async (t) => {
  const strange = [
    '',
    'no JSON',
    '{"kind":"user","id":7',
    'null',
    '7',
    '"user"',
    '[]',
    '{}',
    '{"kind":"user"}',
    '{"id":7}',
    '{"kind":"galaxy","id":7}',
    '{"kind":"constructor","id":7}',
    '{"kind":["user"],"id":7}',
    '{"kind":"User","id":7}',
    '{"kind":"user","id":"7"}',
    '{"kind":"user","id":null}',
    '{"kind":"user","id":7.5}',
    '{"kind":"user","ids":7}',
    '{"kind":"user","ids":[]}',
    '{"kind":"user","ids":[7,"8"]}',
    '{"kind":"user","id":1e400}',
    '{"kind":"user","id":9007199254740993}',
    '{"kind":"everything","id":7}',
    '[{"kind":"user","id":7}]',
    `${'['.repeat(5_000)}`,
  ]
  for (const message of strange) t.same(parseChanges(message), [everything], message.slice(0, 50))
})
