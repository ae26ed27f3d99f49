import fc from 'fast-check'
import t from 'tap'
import { readHeaderName } from '../../../gateway/engine/wire/header-name.ts'

t.test('a name is what its bytes say, whichever names were read before', (t) => {
  const name = fc.string({ unit: fc.constantFrom('a', 'b', 'A', '-', '\xe9'), minLength: 1, maxLength: 40 })
  fc.assert(
    fc.property(fc.array(name, { minLength: 1, maxLength: 40 }), fc.string({ maxLength: 5 }), (names, before) => {
      for (const text of [...names, ...names]) {
        const bytes = Buffer.from(before + text + before, 'latin1')
        if (readHeaderName(bytes, before.length, before.length + text.length) !== text) return false
      }
      return true
    }),
    { numRuns: 2_000 },
  )
  t.end()
})
