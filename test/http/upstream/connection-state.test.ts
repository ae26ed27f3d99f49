import fc from 'fast-check'
import t from 'tap'
import { FairReader } from '../../../gateway/http/socket/fair-reader.ts'
import { ConnectionState } from '../../../gateway/http/upstream/connection-state.ts'

const turn = () => new Promise((resolve) => setImmediate(resolve))

const mebibyte = 1024 * 1024

/** Spends the read budget of this turn, as other sockets do. */
const spend = (): void => new FairReader(openGate()).count('another', 4 * mebibyte, 1)

function openGate() {
  let isOpen = true
  const set = (wanted: boolean) => (): void => {
    isOpen = wanted
  }
  const [open, close] = [set(true), set(false)]
  return { isOpen: () => isOpen, open, close, hold: close, letOut: close, detach: close }
}

const steps = ['read', 'spend', 'pause', 'resume', 'drain', 'rest', 'take', 'turn', 'close'] as const

type Step = (typeof steps)[number]

const next: Readonly<Record<string, Readonly<Partial<Record<Step, string>>>>> = {
  busy: { drain: 'draining', close: 'closed' },
  draining: { rest: 'idle', close: 'closed' },
  idle: { take: 'busy', close: 'closed' },
  closed: {},
}

t.test('a draining or idle connection is open to each byte, in any order of reads, pauses and budgets', async () => {
  const histories = fc.array(fc.constantFrom<Step>(...steps), { maxLength: 40 })
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const gate = openGate()
      const state = new ConnectionState(new FairReader(gate))
      state.opened()
      let expected = 'busy'
      for (const step of history) {
        if (step === 'read') state.count('one', 64 * 1024, 0, true)
        else if (step === 'spend') spend()
        else if (step === 'turn') await turn()
        else state[step]()
        expected = next[expected]?.[step] ?? expected
        if (state.name !== expected) throw new Error(`${state.name} instead of ${expected}`)
        if ((expected === 'draining' || expected === 'idle') && !gate.isOpen())
          throw new Error(`${expected}, and closed`)
      }
    }),
    { numRuns: Number(process.env.CAMPAIGN ?? 300) },
  )
})

t.test('a connection whose gate is closed is neither kept nor offered', async (t) => {
  const gate = openGate()
  const state = new ConnectionState(new FairReader(gate))
  state.opened()
  state.drain()
  gate.close()
  t.equal(state.rest(), false)
  gate.open()
  t.equal(state.rest(), true)
  gate.close()
  t.equal(state.take(), false)
})

t.test('a busy connection is read at its turn, and again after its next answer', async (t) => {
  const gate = openGate()
  const state = new ConnectionState(new FairReader(gate))
  state.opened()
  spend()
  state.count('of this test alone', 64 * 1024, 0, true)
  t.equal(gate.isOpen(), false, 'the budget is spent')
  state.drain()
  t.equal(gate.isOpen(), true)
  state.count('of this test alone', 64 * 1024, 0, true)
  t.equal(gate.isOpen(), true)
  t.ok(state.rest() && state.take())
  state.count('of this test alone', 64 * 1024, 0, true)
  t.equal(gate.isOpen(), false)
  await turn()
  t.equal(gate.isOpen(), true)
})
