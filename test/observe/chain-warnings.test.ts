import t from 'tap'
import { createChainWarnings } from '../../gateway/observe/chain-warnings.ts'

function start() {
  const warnings: string[] = []
  let [counted, nowMs] = [0, 0]
  const note = createChainWarnings({
    log: { warn: (line) => void warnings.push(String((line as { peer?: unknown }).peer)) },
    metrics: {
      countUnreadableChain: () => {
        counted += 1
      },
    },
    monotonicMs: () => nowMs,
  })
  const passMs = (ms: number): void => {
    nowMs += ms
  }
  return { note, warnings, counted: () => counted, passMs }
}

t.test('an unreadable chain is told once for each peer and hour, and counted always', async (t) => {
  const { note, warnings, counted, passMs } = start()
  for (let time = 0; time < 3; time += 1) note('10.0.0.1', '10.0.0.1')
  note('10.0.0.2', '10.0.0.2')
  t.same(warnings, ['10.0.0.1', '10.0.0.2'])
  passMs(3_599_999)
  note('10.0.0.1', '10.0.0.1')
  t.equal(warnings.length, 2)
  passMs(1)
  note('10.0.0.1', '10.0.0.1')
  t.same(warnings.slice(2), ['10.0.0.1'])
  t.equal(counted(), 6)
})

t.test('the memory of peers is bounded', async (t) => {
  const { note, warnings, counted, passMs } = start()
  for (let peer = 0; peer < 100_000; peer += 1) note(`2001:db8::${peer.toString(16)}`, 'x')
  t.equal(warnings.length, 256)
  t.equal(counted(), 100_000)
  passMs(3_600_000)
  note('10.0.0.1', '10.0.0.1')
  t.equal(warnings.length, 257, 'an hour later there is room again')
})
