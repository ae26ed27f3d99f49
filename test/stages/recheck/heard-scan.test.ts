import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hearFaults } from '../../../gateway/base/fault/guarded.ts'
import { ExchangeRegister } from '../../../gateway/stages/recheck/exchange-register.ts'
import { HeardScan } from '../../../gateway/stages/recheck/heard-scan.ts'
import { OpenExchange } from '../../../gateway/stages/recheck/open-exchange.ts'
import { compileRoutes } from '../../../gateway/stages/route/table.ts'
import { openWith, route, tokenOf } from '../../support/open-exchange.ts'

const table = compileRoutes([route])

/** Scans of one open exchange for each organization, which end when the test says so. */
function createScanFixture(t: Test, ...organizations: readonly number[]) {
  const exchanges = organizations.map((id) => new OpenExchange(openWith(tokenOf(id), table, {}), 0, 0, 0))
  const state = { begun: 0, scanned: 0, named: [] as (number | undefined)[], end: (): void => void t.fail('no scan') }
  const scan = new HeardScan({
    visit: (look, onEnd) => {
      state.begun += 1
      state.end = () => {
        for (const open of exchanges) look(open)
        onEnd()
      }
    },
    monotonicMs: () => 1_000,
    onNamed: ({ organizationId }) => state.named.push(organizationId),
    onScanned: () => {
      state.scanned += 1
    },
  })
  return { scan, state }
}

const coalesced = (): Promise<void> => sleep(30)

t.test('changes of a few milliseconds take one scan, which names what they concern', async (t) => {
  const { scan, state } = createScanFixture(t, 1, 2, 3)
  scan.add('organization', 1)
  scan.add('organization', 3)
  await coalesced()
  state.end()
  t.match(state, { begun: 1, scanned: 1, named: [1, 3] })
  await coalesced()
  t.equal(state.begun, 1, 'nothing was heard since')
})

t.test('changes that are heard during a scan wait for its end, and the next scan finds them', async (t) => {
  const { scan, state } = createScanFixture(t, 1, 2, 3)
  scan.add('organization', 1)
  await coalesced()
  for (const id of [2, 3]) {
    scan.add('organization', id)
    await coalesced()
  }
  t.equal(state.begun, 1, 'no second scan beside the first')
  state.end()
  t.same(state.named, [1], 'the first knew nothing of them')
  await coalesced()
  t.equal(state.begun, 2)
  state.end()
  t.match(state, { scanned: 2, named: [1, 2, 3] })
})

t.test('a visit that breaks off ends, so that the next scan begins', (t) => {
  t.teardown(hearFaults(() => undefined))
  const monotonicMs = (): number => {
    throw new Error('no clock')
  }
  const register = new ExchangeRegister({ monotonicMs, processId: 1 }, 0)
  register.visit(
    () => undefined,
    () => t.end(),
  )
})
