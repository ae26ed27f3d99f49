import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { nameIdentity } from '../../../gateway/directory/directory.ts'
import { type OpaqueAnswer, OpaqueProof } from '../../../gateway/stages/authenticate/principal.ts'
import { until } from '../../support/gateway.ts'
import { openAs, userOf } from '../../support/open-exchange.ts'
import { createRecheckFixture } from '../../support/recheck-fixture.ts'

const issuer = { issuer: 'https://login.example', clockToleranceSeconds: 0 } as ConstructorParameters<
  typeof OpaqueProof
>[0] // no more is asked

t.test('other abilities of an opaque token are judged on facts of now, however long ago facts were read', async (t) => {
  let skippedMs = 0
  const monotonicMs = (): number => performance.now() + skippedMs
  const { recheck, state } = createRecheckFixture(t, { onUnknown: 'end' }, { monotonicMs })
  const prove = (abilities: readonly string[], answer: Omit<OpaqueAnswer, 'askAgain'>, then?: OpaqueProof) => {
    const askAgain = async () => ({ proof: then ?? proof })
    const claims = { subject: '1', expiresAt: 1e12, abilities } as ConstructorParameters<typeof OpaqueProof>[1] // as above
    const proof: OpaqueProof = new OpaqueProof(issuer, claims, { ...answer, askAgain })
    return proof
  }
  const hour = 3_600_000
  const later = prove(['x:read', 'y:read'], { askedAtMs: monotonicMs(), freshMs: 2 * hour })
  const proof = prove(['x:read'], { askedAtMs: monotonicMs(), freshMs: hour }, later)
  const user = userOf(1)
  state.users.set(nameIdentity(proof), user)
  const caller = { principal: proof.judge(user), organizationId: 1 }
  const open = recheck.open(openAs({ caller }, state.table, {}), recheck.countHeard())
  await sleep(20)
  skippedMs = hour
  await until(() => open.proof === later, 'the later answer')
  await until(() => open.end !== undefined || state.reads.length > 0, 'a read')
  await sleep(100)
  t.equal(open.end, undefined)
})
