import t from 'tap'
import { takeFingerprint, trackPolicyStatus } from '../../../gateway/run/reload/policy-status.ts'

const texts = new Map([
  ['a.yaml', 'routes: []'],
  ['b.yaml', 'roles: []'],
])

function keep() {
  let second = 0
  const ledger = trackPolicyStatus('/policies', () => new Date(second++ * 1_000))
  return { ...ledger, failure: () => ledger.state().failure }
}

t.test('files are listed only after the first good policy', async (t) => {
  const { noteTaken, state, texts: told } = keep()
  t.match(state(), { directory: '/policies', loadedAt: undefined, fingerprint: undefined, files: [] })
  noteTaken(texts)
  t.match(state(), { loadedAt: new Date(0).toISOString(), files: ['a.yaml', 'b.yaml'], failure: undefined })
  t.same(told(), [...texts])
})

t.test('a mistake has the time when it was first seen, until it is mended', async (t) => {
  const { noteOutcome, failure } = keep()
  noteOutcome(false, new Error('a.yaml:1:1: first'))
  noteOutcome(false, new Error('a.yaml:1:1: first'))
  t.same(failure(), { since: new Date(0).toISOString(), message: 'a.yaml:1:1: first' })
  noteOutcome(false, new Error('a.yaml:2:1: second'))
  t.same(failure(), { since: new Date(1_000).toISOString(), message: 'a.yaml:2:1: second' })
  noteOutcome(true)
  t.equal(failure(), undefined)
})

t.test('credentials stay out of what is told, and thousands of mistakes become fifty', async (t) => {
  const { noteOutcome, failure } = keep()
  noteOutcome(false, new Error('/etc/oat_MTI.c2VjcmV0/a.yaml:1:1: x'))
  t.equal(failure()?.message, '/etc/[redacted]/a.yaml:1:1: x')
  noteOutcome(false, new Error(Array.from({ length: 2_000 }, (_, index) => `a.yaml:${index}:1: x`).join('\n')))
  const lines = failure()?.message.split('\n') ?? []
  t.equal(lines.length, 51)
  t.equal(lines.at(-1), '… and 1950 more')
})

t.test('a fingerprint is that of names and texts', async (t) => {
  const fingerprints = [
    [['a', 'x']],
    [['a', 'y']],
    [['b', 'x']],
    [
      ['a', ''],
      ['x', ''],
    ],
    [
      ['a', 'x'],
      ['b', 'x'],
    ],
  ].map((list) => takeFingerprint(list as [string, string][]))
  t.equal(new Set(fingerprints).size, fingerprints.length)
  t.equal(takeFingerprint([['a', 'x']]), fingerprints[0])
  t.match(fingerprints[0], /^[0-9a-f]{12}$/)
})
