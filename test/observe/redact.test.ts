import t from 'tap'
import { redact } from '../../gateway/observe/redact.ts'

t.test('a credential in a path stays out of the log', async (t) => {
  t.equal(redact('/a/oat_MQ.c2VjcmV0/b'), '/a/[redacted]/b')
  t.equal(redact('/a/eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2ln'), '/a/[redacted]')
})

t.test('names and passwords of connection strings stay out of errors', async (t) => {
  t.equal(
    redact('connect postgres://user:hunter2@db:5432/x, redis://:hunter2@cache'),
    'connect postgres://[redacted]@db:5432/x, redis://[redacted]@cache',
  )
  t.notMatch(redact('postgres://user:hunt@er2@db/x'), /hunt|er2/)
})

t.test('an ordinary path is logged as it is', async (t) => {
  for (const path of ['/', '/datasets/42/entries', '/oats/eye', '/x/%20y', '/eyJust.like']) t.equal(redact(path), path)
})
