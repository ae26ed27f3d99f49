import t from 'tap'
import { checkReadiness, combineReadiness } from '../../../gateway/listeners/admin/readiness.ts'

t.test('a check that throws or rejects is failing, and the others are reported too', async (t) => {
  const readiness = await checkReadiness([
    { name: 'fine', check: () => undefined },
    {
      name: 'thrown',
      check: () => {
        throw new Error('no')
      },
    },
    { name: 'rejected', check: () => Promise.reject(new Error('no')) },
  ])
  t.same(readiness, { fine: 'ok', thrown: 'failing', rejected: 'failing' })
})

t.test('each check reports the worst result of all processes, whatever their order', async (t) => {
  const well = { database: 'ok', policy: 'ok' } as const
  const ill = { database: 'failing', policy: 'ok' } as const
  t.same(combineReadiness([well, ill]), { database: 'failing', policy: 'ok' })
  t.same(combineReadiness([ill, well]), { database: 'failing', policy: 'ok' })
  t.same(combineReadiness([well, { workers: 'failing' }]), { database: 'ok', policy: 'ok', workers: 'failing' })
})
