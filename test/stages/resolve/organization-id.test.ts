import t from 'tap'
import { parseId, readOrganizationCookie, readOrganizationId } from '../../../gateway/stages/resolve/organization-id.ts'

const refusal = { code: 'invalid_organization_id', status: 400 }

const noIds = [
  '',
  ' ',
  '0',
  '00',
  '01',
  '-1',
  '+1',
  '1.0',
  '1.',
  '.1',
  '1e0',
  '0x1',
  '0b1',
  '1_000',
  '1,000',
  '1 ',
  ' 1',
  '1\t',
  '1\n',
  '1 2',
  '1,1',
  '1;1',
  '"1"',
  '[1]',
  'null',
  'NaN',
  'Infinity',
  'acme',
  '1n',
  '%31',
  '\u0661', // ARABIC-INDIC DIGIT ONE: \d of other languages would take it
  '\uff11', // FULLWIDTH DIGIT ONE
  '2147483648',
  '4294967297', // 1 after a cut to 32 bits
  '9999999999',
  '18446744073709551617', // 1 after a cut to 64 bits
  '9007199254740993',
]

t.test('an id is a positive decimal integer without sign or leading zero, up to 2147483647', async (t) => {
  for (const id of [1, 7, 10, 42, 999_999_999, 1_000_000_000, 2_147_483_646, 2_147_483_647])
    t.equal(parseId(String(id)), id)
  for (const text of noIds) t.equal(parseId(text), undefined, JSON.stringify(text))
})

t.test('an absent header names no organization', async (t) => {
  t.equal(readOrganizationId([]), undefined)
})

t.test('a header without an id is refused, an empty one too', async (t) => {
  t.equal(readOrganizationId(['7']), 7)
  for (const text of noIds) t.throws(() => readOrganizationId([text]), refusal, JSON.stringify(text))
})

t.test('two header lines are refused, equal or not', async (t) => {
  t.throws(() => readOrganizationId(['1', '1']), refusal)
  t.throws(() => readOrganizationId(['1', '2']), refusal)
  t.throws(() => readOrganizationId(['', '2']), refusal)
})

t.test('the cookie is found among others, on any line', async (t) => {
  t.equal(readOrganizationCookie(['current-org-id=7']), 7)
  t.equal(readOrganizationCookie(['a=1; current-org-id=7; b=2']), 7)
  t.equal(readOrganizationCookie(['a=1;current-org-id=7;b=2']), 7)
  t.equal(readOrganizationCookie(['a=1', 'b=2; current-org-id=7']), 7)
})

t.test('cookies whose names only resemble it name no organization', async (t) => {
  for (const line of ['x-current-org-id=7', 'current-org-id2=7', 'current_org_id=7', 'a=current-org-id'])
    t.equal(readOrganizationCookie([line]), undefined, line)
})

t.test('an absent or empty cookie names no organization', async (t) => {
  for (const lines of [[], [''], ['a=1'], ['current-org-id='], ['a=1; current-org-id=; b=2'], ['current-org-id= ']])
    t.equal(readOrganizationCookie(lines), undefined, JSON.stringify(lines))
})

t.test('a malformed cookie is refused', async (t) => {
  for (const value of ['0', '01', '-1', '+1', '1.0', '"1"', '%31', 'acme', '1 2', '1,1', '2147483648', '=1'])
    t.throws(() => readOrganizationCookie([`current-org-id=${value}`]), refusal, value)
})

t.test('the cookie twice is refused: on one line, on two, equal, or empty', async (t) => {
  for (const lines of [
    ['current-org-id=1; current-org-id=1'],
    ['current-org-id=1; a=1; current-org-id=2'],
    ['current-org-id=1', 'current-org-id=1'],
    ['current-org-id=; current-org-id=1'],
    ['current-org-id=', 'current-org-id='],
  ])
    t.throws(() => readOrganizationCookie(lines), refusal, JSON.stringify(lines))
})
