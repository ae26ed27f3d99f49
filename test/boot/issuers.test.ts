import t from 'tap'
import { checkIssuers } from '../../gateway/boot/issuers.ts'
import type { Configuration } from '../../gateway/configuration/configuration.ts'

const withIssuers = (...names: readonly string[]) =>
  ({
    issuers: names.map((issuer) => ({ issuer, audience: 'a', clockToleranceSeconds: 0, linkVerifiedEmail: false })),
  }) as unknown as Configuration // the one section that is looked at

t.test('an issuer that is listed twice is a mistake, since only one entry’s rules could count', async (t) => {
  t.throws(() => checkIssuers(withIssuers('https://a', 'https://b', 'https://a'), 'gateway.yaml'), {
    message: 'gateway.yaml:1:1: issuers: https://a is listed twice',
  })
  t.doesNotThrow(() => checkIssuers(withIssuers('https://a', 'https://b'), 'gateway.yaml'))
})
