import t from 'tap'
import { nameQueryFailure } from '../../../gateway/directory/postgres/query-failure.ts'

const named = (code?: string) => nameQueryFailure(Object.assign(new Error('no matter what it says'), code && { code }))

t.test('a statement that failed is named by its code', async (t) => {
  t.equal(named('42P01'), 'statement', 'the server knows no such table')
  t.equal(named('57014'), 'timeout', 'the server gave up')
  for (const code of ['57P01', '53300', '08006', 'ECONNREFUSED', undefined])
    t.equal(named(code), 'connection', String(code))
})

t.test('a unique violation is an answer of the database, and not a failure', async (t) => {
  t.equal(named('23505'), undefined)
})
