import t from 'tap'
import { readRequestId } from '../../../gateway/stages/receive/request-id.ts'

const fresh = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/

t.test('a sane id is kept, in any spelling of the header’s case', async (t) => {
  t.equal(readRequestId(['X-Request-ID', 'abc.DEF_1-2']), 'abc.DEF_1-2')
})

t.test('a credential is refused as an id, since ids are logged and sent on', async (t) => {
  for (const value of ['oat_MQ.c2VjcmV0', 'x-oat_MQ.c2VjcmV0', 'eyJhbGciOiJFZERTQSJ9.e30.c2ln'])
    t.match(readRequestId(['x-request-id', value]), fresh, value)
})

t.test('two ids count as absent', async (t) => {
  t.match(readRequestId(['x-request-id', 'a', 'x-request-id', 'a']), fresh)
})
