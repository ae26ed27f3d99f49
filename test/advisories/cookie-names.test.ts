import fc from 'fast-check'
import t from 'tap'
import { readOrganizationCookie } from '../../gateway/stages/resolve/organization-id.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { cookieParsers } from './cookie-parsers.ts'

const refusal = { code: 'invalid_organization_id', status: 400 }

/** Some parsers read these as the organization's cookie, and others do not. */
const misread = [
  'current-org-id =2',
  'current-org-id\t=2',
  'current-org-id\u00a0=2',
  '\u00a0current-org-id=2',
  '\u00e2\u0080\u0083current-org-id=2', // an em space in UTF-8
  'current-org-id=2\u00a0',
  'a=1 current-org-id=2',
  'a=1, current-org-id=2',
  'a=1,current-org-id=2',
  '$Version=1, current-org-id=2',
  'Current-Org-Id=2',
  'CURRENT-ORG-ID=2',
  'current%2Dorg-id=2',
  '%63urrent-org-id=2',
  '%2563urrent-org-id=2',
  '%20current-org-id=2',
  'current-org-id%20=2',
  'current-org-id%00=2',
  '=current-org-id=2',
  '==current-org-id=2',
  '"current-org-id"=2',
  'current-org-id[]=2',
  'current-org-id[a]=2',
  'current-org-id="2"',
  'a="x; current-org-id=2; y"',
  'current-org-id=2; current-org-id =3',
  'current-org-id =3; current-org-id=2',
  'current-org-id=2; Current-Org-Id=3',
  'current-org-id=; current-org-id =3',
]

// npm's cookie and Python's parser trim names: the gateway saw no organization where its backend saw another tenant's.
for (const line of misread)
  t.test(`${JSON.stringify(line)} is refused`, async (t) => {
    t.throws(() => readOrganizationCookie([line]), refusal)
    t.throws(() => readOrganizationCookie(['b=1', `a=1; ${line}`]), refusal)
  })

t.test('cookies of other names, whatever they hold, name no organization', async (t) => {
  for (const line of [
    'x-current-org-id=2',
    'current-org-id2=2',
    'current_org_id=2',
    'a=current-org-id',
    'a=current-org-id=2',
    'back=%2Fx%3Fcurrent-org-id%3D2',
    'prefs={"a":1,"b":"x y"}',
    'prefs=%7B%22current-org-id%22%3A2%7D',
    'x=%',
  ])
    t.equal(readOrganizationCookie([line]), undefined, line)
})

t.test('a plain cookie is read beside others, whatever those hold', async (t) => {
  for (const line of ['prefs={"a":1,"b":"x y"}', '$Version=1', 'a="b c"', 'x=%41%', 'y=\u00e9', 'z'])
    t.equal(readOrganizationCookie([`${line}; current-org-id=2; ${line}`]), 2, line)
})

const name = fc.oneof(
  { weight: 6, arbitrary: fc.constant('current-org-id') },
  fc.constantFrom('Current-Org-Id', 'current%2dorg-id', '%63urrent-org-id', 'current-org-id[]', '"current-org-id"'),
  fc.constantFrom(
    'a',
    '$Version',
    '$Path',
    '',
    'x-current-org-id',
    'current.org.id',
    '+current-org-id',
    'current-org-id+',
  ),
)
const blanks = [
  '',
  ' ',
  '  ',
  '\t',
  '\u00a0',
  '\u0085',
  '\u00ef\u00bb\u00bf',
  '\u00e3\u0080\u0080',
  '"',
  '=',
  '%20',
  '+',
]
const gap = fc.oneof({ weight: 5, arbitrary: fc.constant('') }, fc.constantFrom(...blanks))
const value = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom('1', '2', '3') },
  fc.constantFrom(
    '"2"',
    '',
    '%32',
    '2,current-org-id=3',
    '"x',
    'x"',
    '{"a":1}',
    '"a\\"b"',
    '2 3',
    'x current-org-id=3',
  ),
)
const equals = fc.constantFrom('=', '=', '=', '=', ' = ', '==', '')
const cookie = fc.tuple(gap, name, gap, equals, gap, value, gap).map((parts) => parts.join(''))
const separator = fc.constantFrom('; ', '; ', ';', ' ;', ',', ', ', ' ', '&', ';;')
const header = fc
  .array(fc.tuple(cookie, separator), { minLength: 1, maxLength: 4 })
  .map((pairs) => pairs.flat().slice(0, -1).join('').trim())
  .filter((text) => text !== '')

const headers = [...misread, ...fc.sample(header, { numRuns: 3_000, seed: 20 })]

function readOurs(text: string): string {
  try {
    return String(readOrganizationCookie([text]) ?? '')
  } catch {
    return 'refused'
  }
}

for (const { name, lack, readAll } of cookieParsers)
  testUnlessLacking(
    t,
    `an organization that ${name} reads is the one that is pinned, or 400`,
    async (t) => {
      const theirs = await readAll(t, headers)
      let compared = 0
      headers.forEach((text, index) => {
        const ours = readOurs(text)
        // Blanks around a value change no number.
        const values = (theirs[index] ?? [])
          .map((value) => value.replace(/^[ \t]+|[ \t]+$/g, ''))
          .filter((value) => value !== '')
        if (values.length > 0) compared += 1
        if (ours !== 'refused' && values.some((value) => value !== ours))
          t.fail(`${JSON.stringify(text)}: ${JSON.stringify(values)}, and here ${JSON.stringify(ours)}`)
      })
      t.ok(compared > 500, `${compared} headers name one`)
    },
    lack,
  )

t.test('some of the generated cookies name an organization, and some name none', async (t) => {
  const read = headers.map(readOurs)
  t.ok(read.filter((outcome) => /^\d/.test(outcome)).length > 50)
  t.ok(read.filter((outcome) => outcome === '').length > 50)
})
