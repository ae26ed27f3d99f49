import fc from 'fast-check'
import t from 'tap'
import { type ConnectionAccount, MemoryBudget } from '../../gateway/http/memory-budget.ts'

/** A budget, and connections by the names that a test gives them; those that were cut are told of. */
function openBudget(limitBytes: number) {
  const budget = new MemoryBudget(limitBytes)
  const cut: string[] = []
  const open = (name: string, address: string): ConnectionAccount =>
    budget.open(address, { relieve: () => cut.push(name) })
  return { budget, cut, open }
}

t.test('half of the budget is for any connection to use', async (t) => {
  const { budget, open } = openBudget(1_000)
  const account = open('one', '192.0.2.1')
  account.hold(500)
  t.equal(account.isThrottled, false)
  account.hold(1)
  t.equal(account.isThrottled, true)
  t.equal(budget.countThrottled(), 1)
  account.release(501)
  t.equal(account.isThrottled, false)
})

t.test('beyond half of the budget, only holders of more than an equal part are throttled', async (t) => {
  const { open } = openBudget(1_000)
  const greedy = open('greedy', '192.0.2.1')
  const other = open('other', '192.0.2.2')
  greedy.hold(500)
  other.hold(100)
  t.equal(greedy.isThrottled, true)
  t.equal(open('sibling', '192.0.2.1').isThrottled, true, 'whatever it holds itself')
  t.equal(other.isThrottled, false)
  t.equal(open('newcomer', '192.0.2.3').isThrottled, false)
})

t.test('at the end of the budget the largest of the greediest are cut, and no more than it takes', async (t) => {
  const { budget, cut, open } = openBudget(1_000)
  const accounts = [300, 200, 100].map((bytes, index) => {
    const account = open(`greedy ${index}`, '192.0.2.1')
    account.hold(bytes)
    return account
  })
  open('honest', '192.0.2.2').hold(380)
  accounts[2]?.hold(50)
  t.same(cut, ['greedy 0'])
  t.equal(budget.heldBytes, 730)
})

t.test('addresses of one /64, and an IPv4 address in either form, are one', async (t) => {
  for (const [one, another] of [
    ['2001:db8::1', '2001:db8::2'],
    ['192.0.2.1', '::ffff:192.0.2.1'],
  ] as const) {
    const { open } = openBudget(1_000)
    open('one', one).hold(400)
    open('other', '198.51.100.1').hold(200)
    t.equal(open('another', another).isThrottled, true, another)
  }
})

t.test('an organization counts over all of its addresses, from when it is known', async (t) => {
  const { cut, open } = openBudget(1_000)
  const honest = open('honest', '192.0.2.1')
  honest.forOrganization(1)
  honest.hold(150)
  for (let index = 0; index < 9; index++) {
    const account = open(`greedy ${index}`, `198.51.100.${index}`)
    account.hold(100)
    account.forOrganization(2)
  }
  t.ok(cut.length > 0)
  t.ok(cut.every((name) => name.startsWith('greedy')))
})

t.test('a holder that releases enough when asked keeps its connection, and is asked once', async (t) => {
  const { budget, cut, open } = openBudget(1_000)
  const account = open('stream', '192.0.2.1')
  let asked = 0
  account.onRelief(() => {
    asked += 1
    account.release(900)
  })
  account.hold(1_001)
  t.same(cut, [])
  t.equal(budget.heldBytes, 101)
  account.hold(900)
  t.equal(asked, 1)
  t.same(cut, ['stream'])
  t.equal(budget.heldBytes, 0)
})

t.test('groups are cut in turns, the largest first, each down to the next one', async (t) => {
  const { budget, cut, open } = openBudget(1_000)
  for (const [name, address, bytes] of [
    ['a', '192.0.2.1', 90],
    ['b', '192.0.2.2', 88],
  ] as const)
    for (let count = 0; count < 4; count++) open(name, address).hold(bytes)
  open('c', '192.0.2.3').hold(280)
  open('d', '192.0.2.4').hold(50)
  t.same(cut, ['a', 'b'])
  t.equal(budget.heldBytes, 864)
})

// Each cut looked at all networks: 64 MiB of a crowd stopped the process for half a second, again and again.
t.test('a crowd with a network for each member is cut in the time that its cuts take', async (t) => {
  const members = 40_000
  const { budget, cut, open } = openBudget(members * 100)
  for (let index = 0; index < members; index++)
    open('crowd', `2001:db8:${(index >> 8).toString(16)}:${(index & 255).toString(16)}::1`).hold(100)
  t.same(cut, [])
  const started = process.cpuUsage()
  open('greediest', '192.0.2.1').hold(200)
  const { user, system } = process.cpuUsage(started)
  t.equal(cut[0], 'greediest')
  t.equal(budget.heldBytes, (members * 100 * 7) / 8)
  t.ok(user + system < 2_000_000, `${(user + system) / 1_000} ms of a processor`)
})

t.test('the sums stay right, however bytes are held, released, moved, cut and closed', async () => {
  const step = fc.record({
    index: fc.nat(9),
    what: fc.constantFrom('hold', 'release', 'address', 'organization', 'close'),
    amount: fc.nat(400),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const budget = new MemoryBudget(1_000)
      const accounts: { account: ConnectionAccount; isOpen: boolean }[] = []
      const open = (index: number): void => {
        const relieve = (): void => {
          entry.isOpen = false
        }
        const entry = { account: budget.open(`192.0.2.${index % 3}`, { relieve }), isOpen: true }
        accounts[index] = entry
      }
      for (let index = 0; index < 10; index++) open(index)
      for (const { index, what, amount } of steps) {
        const entry = accounts[index]
        if (!entry) continue
        const { account } = entry
        if (what === 'hold') account.hold(amount)
        else if (what === 'release') account.release(Math.min(amount, account.heldBytes))
        else if (what === 'address') account.fromAddress(`198.51.100.${amount % 4}`)
        else if (what === 'organization') account.forOrganization(amount % 3 === 0 ? undefined : amount % 3)
        else account.close()
        const sum = accounts.reduce((bytes, { account }) => bytes + account.heldBytes, 0)
        if (sum !== budget.heldBytes || sum > budget.limitBytes) return false
        if (what === 'close' || !entry.isOpen) open(index)
      }
      for (const { account } of accounts) account.close()
      return budget.heldBytes === 0 && budget.countGroups() === 0
    }),
    { numRuns: 500 },
  )
})
