import t from 'tap'
import { singleFlight } from '../../../gateway/directory/cache/single-flight.ts'

/** A call whose answers the test gives, in the order of asking. */
function holdCalls() {
  const asked: string[] = []
  const settlers: Readonly<{ resolve: (text: string) => void; reject: (error: unknown) => void }>[] = []
  const shared = singleFlight(
    (input: Readonly<{ name: string; detail?: string }>) => input.name,
    ({ name, detail = '' }) => {
      asked.push(name + detail)
      return new Promise<string>((resolve, reject) => settlers.push({ resolve, reject }))
    },
  )
  return { ...shared, asked, settlers }
}

t.test('calls of one name share, whatever else they hold, and those of another do not', async (t) => {
  const { call, asked, settlers } = holdCalls()
  const calls = [call({ name: 'a', detail: '1' }), call({ name: 'a', detail: '2' }), call({ name: 'b' })]
  t.same(asked, ['a1', 'b'])
  settlers[0]?.resolve('first')
  settlers[1]?.resolve('second')
  t.same(await Promise.all(calls), ['first', 'first', 'second'])
})

t.test('a call that has ended is shared no more', async (t) => {
  const { call, asked, settlers } = holdCalls()
  for (const answer of ['first', 'second']) {
    const result = call({ name: 'a' })
    settlers.at(-1)?.resolve(answer)
    t.equal(await result, answer)
  }
  t.equal(asked.length, 2)
})

t.test('a failure goes to each caller that shared it, and is not kept', async (t) => {
  const { call, asked, settlers } = holdCalls()
  const calls = [call({ name: 'a' }), call({ name: 'a' })]
  settlers[0]?.reject(new Error('down'))
  for (const result of calls) await t.rejects(result, /down/)
  const again = call({ name: 'a' })
  settlers[1]?.resolve('up')
  t.equal(await again, 'up')
  t.equal(asked.length, 2)
})

t.test('a forgotten call ends as it would, for its earlier callers alone', async (t) => {
  const { call, forget, asked, settlers } = holdCalls()
  const early = call({ name: 'a' })
  forget()
  const late = call({ name: 'a' })
  t.equal(asked.length, 2)
  settlers[0]?.resolve('before')
  t.equal(await early, 'before')
  const later = call({ name: 'a' })
  t.equal(asked.length, 2, 'the end of the first leaves the second shared')
  settlers[1]?.resolve('after')
  t.same(await Promise.all([late, later]), ['after', 'after'])
})
