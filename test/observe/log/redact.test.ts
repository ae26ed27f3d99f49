import t from 'tap'
import { redact } from '../../../gateway/observe/log/redact.ts'

t.test('a credential in a path stays out of the log', async (t) => {
  t.equal(redact('/a/oat_MQ.c2VjcmV0/b'), '/a/[redacted]/b')
  t.equal(redact('/a/eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2ln'), '/a/[redacted]')
})

t.test('an escape hides no credential', async (t) => {
  for (const path of [
    '/a/%6fat_MQ.c2VjcmV0/b',
    '/a/oat%5fMQ.c2VjcmV0/b',
    '/a/%256Fat_MQ.c2VjcmV0/b',
    '/a/eyJhbGciOiJFZERTQSJ9%2eeyJzdWIiOiIxIn0%2Ec2ln/b',
    '/a/x%20eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2ln/b',
    '/a/%%ff%6Fat_MQ.c2VjcmV0/b',
    '/a/%ff%65yJhbGciOiJFZERTQSJ9.x/b',
    '/a/eyJ.eyJhbGciOiJF.x/b',
  ])
    t.equal(redact(path), '/a/[redacted]/b', path)
})

t.test('names and passwords of connection strings stay out of errors', async (t) => {
  t.equal(
    redact('connect postgres://user:hunter2@db:5432/x, redis://:hunter2@cache'),
    'connect postgres://[redacted]@db:5432/x, redis://[redacted]@cache',
  )
  t.notMatch(redact('postgres://user:hunt@er2@db/x'), /hunt|er2/)
})

t.test('an ordinary path is logged as it is', async (t) => {
  for (const path of [
    '/',
    '/datasets/42/entries',
    '/oats/eye',
    '/x/%20y',
    '/eyJust.like',
    '/a%2Fb',
    '/100%25',
    '/%zz',
    '/eyJhbGciOiJFZERTQSJ9',
  ])
    t.equal(redact(path), path)
})
