import t from 'tap'
import { readQuestion, readQuestionBatch } from '../../gateway/listeners/decision/authzen/questions.ts'
import type { Roles } from '../../gateway/policy/role.ts'
import type { Permit } from '../../gateway/stages/authorize/decide.ts'
import { readJsonObject } from '../../gateway/stages/endpoints/read-body.ts'

const subject = '"subject":{"type":"user","id":"1"}'
const action = '"action":{"name":"read"}'
const resource = '"resource":{"type":"dataset","id":"7"}'
const question = [subject, action, resource].join()

const read = (text: string) => readQuestion(Buffer.from(text))
const readBatch = (text: string) => readQuestionBatch(Buffer.from(text))

// CouchDB CVE-2017-12635: one parser took the first of two equal names, and another the last.
t.test('a question with a name twice in one object is refused, at any depth and in any spelling', async (t) => {
  const twice = [
    `{${question},${subject}}`,
    `{${question},"context":{"a":1,"b":2,"a":3}}`,
    `{${question},"context":{"a":[{"b":{}},{"b":1,"b":1}]}}`,
    `{${question},"context":{"":1,"":2}}`,
    `{${action},${resource},"subject":{"type":"user","id":"1","id":"2"}}`,
    `{${action},${resource},"subject":{"type":"user","id":"1","i\\u0064":"2"}}`,
    `{${action},${resource},"subject":{"type":"user","id":"1","properties":{"x":"\\"","\\u0078":1}}}`,
  ]
  for (const text of twice) {
    t.throws(() => read(text), { code: 'body_unparseable' }, text)
    t.throws(() => readBatch(text), { code: 'body_unparseable' }, text)
  }
  t.throws(() => readBatch(`{${question},"evaluations":[{"action":{"name":"a","name":"b"}}]}`), {
    code: 'body_unparseable',
  })
})

t.test('equal names of several objects, and names within texts, do not count', async (t) => {
  const apart = [
    `{${question}}`,
    `{${question},"context":{"subject":{"subject":[{"id":1},{"id":2}]},"a":"\\",\\"a\\":1,{","b":"a:a"}}`,
    `{${question},"context":{"a":["a","a",{"a":"a"}],"A":1,"a ":2}}`,
  ]
  for (const text of apart) {
    t.match(read(text), { action: 'read' }, text)
    t.match(readBatch(text), { action: 'read' }, text)
  }
})

t.test('a body of an endpoint with a name twice is refused, such as a mint of two scopes', async (t) => {
  const confirmed = { permit: {} as Permit, roles: {} as Roles } // what the policy says is of no matter here
  const readBody = async (text: string) =>
    (await readJsonObject({ readBody: async () => ({ ...confirmed, bytes: Buffer.from(text) }) })).body
  for (const text of [
    '{"scope":"api-secret","scope":"api-key"}',
    '{"scope":"api-key","\\u0073cope":"api-secret"}',
    '{"scope":"api-key","expiresAt":"2999-01-01T00:00:00Z","expiresAt":null}',
    '{"scope":"api-key","name":{"a":1,"a":2}}',
  ])
    await t.rejects(readBody(text), { code: 'body_unparseable' }, text)
  await t.rejects(readBody(`{"name":${'['.repeat(99)}${']'.repeat(99)}}`), { code: 'body_unparseable' }, 'too deep')
  t.same(await readBody('{"scope":"api-key","name":"scope"}'), { scope: 'api-key', name: 'scope' })
})
