import fc from 'fast-check'
import t from 'tap'
import { ClientState, type ClientStateName } from '../../../gateway/http/server/client-state.ts'

/** A deadline that tells whom it would call, and after how long. */
function createDeadline() {
  let set: Readonly<{ delayMs: number; target: unknown; fire: () => void }> | undefined
  const clear = (): void => {
    set = undefined
  }
  return {
    set<Target>(delayMs: number, target: Target, onDue: (target: Target) => void): void {
      set = { delayMs, target, fire: () => onDue(target) }
    },
    stop: clear,
    discard: clear,
    read: () => set,
  }
}

function createState(
  timeouts: ConstructorParameters<typeof ClientState>[1] = { headersTimeoutMs: 20_000, keepAliveMs: 95_000 },
) {
  const heard: string[] = []
  const owner = {
    headLate: () => void heard.push('head'),
    waitOver: () => void heard.push('wait'),
    destroy: () => undefined,
  }
  const deadline = createDeadline()
  const state = new ClientState(owner, timeouts, deadline)
  state.start()
  /** The method of the owner that the deadline would call, or the body that set it. */
  const readWaiter = (): string => {
    const set = deadline.read()
    if (!set) return 'none'
    if (set.target !== owner) return String(set.target)
    heard.length = 0
    set.fire()
    return heard.join()
  }
  return { state, deadline, readWaiter }
}

const steps = [
  ...['beginHead', 'open', 'complete', 'next', 'nextKept', 'takeTurn', 'drain', 'poison', 'refuse', 'linger'],
  ...['detach', 'close', 'setBody', 'stopBody'],
] as const

type Step = 'beginHead' | 'open' | 'complete' | 'next' | 'nextKept' | 'takeTurn' | 'drain' | 'poison' | End | BodyStep
type End = 'refuse' | 'linger' | 'detach' | 'close'
type BodyStep = 'setBody' | 'stopBody'

const open = { refuse: 'refused', linger: 'closing', detach: 'tunnel', close: 'closed' } as const

/** The states and steps of the module's own table. */
const next: Readonly<Record<ClientStateName, Readonly<Partial<Record<Step, ClientStateName>>>>> = {
  idle: { ...open, beginHead: 'head', open: 'body' },
  head: { ...open, open: 'body' },
  body: { ...open, complete: 'answer', drain: 'draining', poison: 'poisoned' },
  answer: { ...open, next: 'idle', nextKept: 'pipelined' },
  pipelined: { ...open, takeTurn: 'idle' },
  draining: { ...open, next: 'idle', nextKept: 'pipelined' },
  poisoned: open,
  refused: { linger: 'closing', detach: 'tunnel', close: 'closed' },
  closing: { linger: 'closing', detach: 'tunnel', close: 'closed' },
  tunnel: { detach: 'tunnel', close: 'closed' },
  closed: {},
}

/** The owners that the deadline may have in each state. */
const waiters: Readonly<Record<ClientStateName, readonly string[]>> = {
  idle: ['head', 'wait'],
  head: ['head'],
  body: ['none', 'body'],
  answer: ['none'],
  pipelined: ['wait'],
  draining: ['wait'],
  poisoned: ['none'],
  refused: ['none', 'body'],
  closing: ['none'],
  tunnel: ['none'],
  closed: ['none'],
}

const ignoring: readonly ClientStateName[] = ['poisoned', 'refused', 'closing', 'tunnel', 'closed']
const keeping: readonly ClientStateName[] = ['answer', 'pipelined']

function take(state: ClientState, step: string): void {
  if (step === 'setBody') state.setForBody(30_000, 'body', () => undefined)
  else if (step === 'stopBody') state.stopForBody()
  else if (step === 'nextKept') state.next(true)
  else if (step === 'next') state.next(false)
  else state[step as 'open'](/* the steps are the names of methods */)
}

t.test('a client that owes bytes has a deadline, and no other owner touches it, in any order of events', async () => {
  const histories = fc.array(fc.constantFrom(...(steps as readonly Step[])), { maxLength: 60 })
  await fc.assert(
    fc.property(histories, (history) => {
      const { state, readWaiter } = createState()
      let expected: ClientStateName = 'idle'
      for (const step of history) {
        const before = readWaiter()
        take(state, step)
        const isStaying = next[expected][step] === undefined
        expected = next[expected][step] ?? expected
        if (state.name !== expected) throw new Error(`${state.name} after ${step} instead of ${expected}`)
        const after = readWaiter()
        if (!waiters[expected].includes(after)) throw new Error(`${after} waits while ${expected}`)
        const isBodys = step === 'setBody' || step === 'stopBody'
        const maySet = isBodys && (expected === 'body' || expected === 'refused')
        if (isStaying && !maySet && after !== before) throw new Error(`${step} moved the deadline while ${expected}`)
        if (state.ignoresBytes !== ignoring.includes(expected)) throw new Error(`bytes are heard while ${expected}`)
        if (state.keepsBytes !== keeping.includes(expected)) throw new Error(`bytes are kept while ${expected}`)
      }
    }),
    { numRuns: Number(process.env.CAMPAIGN ?? 1_000) },
  )
})

t.test('an earlier body neither stops nor moves the deadline of the next request', async (t) => {
  const { state, deadline, readWaiter } = createState()
  state.open()
  state.setForBody(30_000, 'body', () => undefined)
  state.drain()
  state.stopForBody()
  t.equal(readWaiter(), 'wait')
  state.next(false)
  state.setForBody(600_000, 'body', () => undefined)
  t.equal(readWaiter(), 'wait')
  state.beginHead()
  state.stopForBody()
  t.equal(readWaiter(), 'head')
  t.equal(deadline.read()?.delayMs, 20_000)
})

t.test('a time for the whole request bounds its head, its body and the rest of a useless one', async (t) => {
  const { state, deadline } = createState({ headersTimeoutMs: 20_000, keepAliveMs: 95_000, requestTimeoutMs: 5_000 })
  const delayMs = (): number => deadline.read()?.delayMs ?? 0
  t.ok(delayMs() <= 5_000 && delayMs() > 4_000)
  state.open()
  state.setForBody(30_000, 'body', () => undefined)
  t.ok(delayMs() <= 5_000 && delayMs() > 4_000)
  state.setForBody(1_000, 'body', () => undefined)
  t.equal(delayMs(), 1_000, 'a shorter one stays')
  state.drain()
  t.ok(delayMs() <= 5_000)
  state.next(false)
  t.ok(delayMs() > 5_000, 'a connection may be idle for longer')
})
