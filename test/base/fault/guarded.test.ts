import t from 'tap'
import { guarded, hearFaults, reportFault } from '../../../gateway/base/fault/guarded.ts'
import type { LogFields } from '../../../gateway/observe/log/log.ts'
import { reportFaults } from '../../../gateway/run/boot/process-context.ts'

t.test('an error of a guarded callback is reported, and ends its own work alone', async (t) => {
  const heard: unknown[] = []
  t.teardown(hearFaults((component, error) => heard.push([component, (error as Error).message])))
  const ended: string[] = []
  const work = guarded(
    'client',
    (name: string, more: string) => {
      throw new Error(name + more)
    },
    (name) => ended.push(name),
  )
  work('a', 'b')
  t.same([heard, ended], [[['client', 'ab']], ['a']])
})

t.test('a promise that rejects is reported, and so is what the ending itself throws', async (t) => {
  const heard: string[] = []
  t.teardown(hearFaults((_component, error) => heard.push((error as Error).message)))
  const rejecting = guarded('timer', async () => {
    throw new Error('late')
  })
  rejecting()
  const worse = guarded(
    'timer',
    () => {
      throw new Error('first')
    },
    () => {
      throw new Error('second')
    },
  )
  worse()
  await new Promise((resolve) => setImmediate(resolve))
  t.same(heard, ['first', 'second', 'late'])
})

t.test('a callback that does not throw is not touched', async (t) => {
  const seen: unknown[] = []
  const work = guarded('upstream', (one: number, two: number) => seen.push([one, two]))
  work(1, 2)
  t.same(seen, [[1, 2]])
})

function listen(t: { teardown: (end: () => void) => unknown }) {
  const lines: LogFields[] = []
  const components: string[] = []
  let nowMs = 0
  const log = { error: (fields: LogFields) => void lines.push(fields) }
  const metrics = { countFault: (component: string) => void components.push(component) }
  t.teardown(reportFaults(log, metrics, () => nowMs))
  return { lines, components, pass: (ms: number) => (nowMs += ms) }
}

t.test('each fault is counted, and its cause is logged once a minute, without a secret', async (t) => {
  const { lines, components, pass } = listen(t)
  const again = (text: string): void => reportFault('client', new TypeError(`planted ${text}`))
  for (const text of ['oat_MTI.c2VjcmV0c2VjcmV0', 'b', 'c']) again(text)
  t.same(components, ['client', 'client', 'client'])
  t.equal(lines.length, 1)
  t.match(lines[0], { component: 'client', error: { stack: /guarded\.test/ } })
  t.notMatch(JSON.stringify(lines), /c2VjcmV0/)
  reportFault('client', new TypeError('from elsewhere'))
  t.equal(lines.length, 2, 'another cause')
  pass(60_001)
  again('d')
  t.equal(lines.length, 3, 'after a minute')
})

t.test('memory for thrown errors is bounded', async (t) => {
  const { lines, components } = listen(t)
  for (let index = 0; index < 1_000; index += 1) {
    const error = new Error('x')
    error.stack = `Error: x\n    at place ${index}`
    reportFault('timer', error)
  }
  for (const odd of [undefined, null, 'text', 5, { stack: 1 }]) reportFault('timer', odd)
  t.equal(components.length, 1_005)
  t.equal(lines.length, 1_001)
})
