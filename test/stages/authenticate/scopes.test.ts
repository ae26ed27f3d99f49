import t from 'tap'
import type { UserRecord } from '../../../gateway/directory/directory.ts'
import type { Claims, TrustedIssuer } from '../../../gateway/stages/authenticate/claims.ts'
import type { KeySet } from '../../../gateway/stages/authenticate/jwks/key-set.ts'
import { JwtProof } from '../../../gateway/stages/authenticate/principal.ts'
import { mapScopes } from '../../../gateway/stages/authenticate/scopes.ts'
import type { ChosenKey } from '../../../gateway/stages/authenticate/signature.ts'

t.test('scopes grant what their entries name, and others nothing', async (t) => {
  const find = mapScopes({ read: ['a:read', 'b:read'], write: ['a:write', 'a:read'], openid: [], all: ['*'] })
  t.same(find(['read', 'profile']), ['a:read', 'b:read'])
  t.same(find(['write', 'read']), ['a:read', 'a:write', 'b:read'])
  t.same(find(['all', 'openid']), ['*'])
  for (const none of [[], ['openid'], ['Read'], ['read '], ['constructor'], [['read']], [null, 1, {}]])
    t.same(find(none), [], JSON.stringify(none))
})

t.test('the same scopes share one list in any order, however many combinations there are', async (t) => {
  const names = Array.from({ length: 12 }, (_, index) => `s${index}`)
  const find = mapScopes(Object.fromEntries(names.map((name) => [name, [`${name}:read`]])))
  t.equal(find(['s1', 's2', 'x']), find(['s2', 's1', 's1']))
  for (let bits = 0; bits < 4_096; bits += 1) {
    const granted = names.filter((_, index) => bits & (1 << index))
    t.same(find(granted), granted.map((name) => `${name}:read`).sort())
  }
})

t.test('an open exchange is judged again within the scopes of its JWT', async (t) => {
  const abilities = ['datasets:read']
  const claims = { subject: 'a', expiresAt: 1, abilities } as Partial<Claims> as Claims // the proof keeps nothing else
  const trust = { issuer: 'i', clockToleranceSeconds: 0 } as TrustedIssuer
  const key = {} as ChosenKey
  const proof = new JwtProof(trust, claims, {} as KeySet, { headerText: '', key, keysVersion: 1 })
  t.equal(proof.judge({} as UserRecord).credential.abilities, abilities)
})
