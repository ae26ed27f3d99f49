import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'

interface Extractor {
  readonly extractProse: (file: string, source: string) => { text: string; lines: number[]; comments: number }
}

type Text = readonly [file: string, text: string]
type Alert = Readonly<{ file: string; line: number; rule: string; severity: string }>
type Found = Readonly<{ alerts: readonly Alert[]; comments: readonly (readonly [file: string, count: number])[] }>

interface Checker {
  readonly isChecked: (name: string) => boolean
  readonly findVale: () => string | undefined
  readonly checkTexts: (vale: string, files: readonly Text[]) => Found
  readonly judgeProse: (found: Found) => Readonly<{ lines: readonly string[]; isGood: boolean }>
}

const { extractProse }: Extractor = await import(new URL('../../scripts/extract-prose.js', import.meta.url).href)
const { isChecked, findVale, checkTexts, judgeProse }: Checker = await import(
  new URL('../../scripts/prose.js', import.meta.url).href
)
const vale = findVale()

const source = `// One comment
// on two lines.
const url = 'http://example.com/ // no comment' // at the end
/** Says \`why\`.
 * And cites. */
log.warn({ url }, 'name not resolved')
throw new Error(\`there is no user \${id} here\`)
const text = 'select a from b where c'
`

const read = (file: string, text: string) => {
  const { text: prose, lines, comments } = extractProse(file, text)
  return { lines: prose.split('\n').map((line, index) => [lines[index], line]), comments }
}

t.test('comments and messages are extracted with their lines', async (t) => {
  const { lines, comments } = read('gateway/example.ts', source)
  t.equal(comments, 3)
  t.strictSame(
    lines.filter(([, line]) => line !== ''),
    [
      [1, 'One comment'],
      [2, 'on two lines.'],
      [3, 'at the end'],
      [4, 'Says `why`.'],
      [5, 'And cites.'],
      [6, 'Name not resolved'],
      [7, 'There is no user `x` here'],
    ],
  )
})

t.test('a test gives its name and its comments, not its data', async (t) => {
  const { lines } = read(
    'test/example.test.ts',
    "t.test('who asks is told', () => send('what this text says is data'))\n",
  )
  t.strictSame(
    lines.filter(([, line]) => line !== ''),
    [[1, 'Who asks is told']],
  )
})

t.test('Markdown is taken as it is', async (t) => {
  t.strictSame(read('docs/a.md', '# A\n\nText.').lines, [
    [1, '# A'],
    [2, ''],
    [3, 'Text.'],
  ])
})

t.test('descriptions of schemas, comments of configuration and names of expectations are taken', async (t) => {
  const linesOf = (file: string, text: string) => read(file, text).lines.filter(([, line]) => line !== '')
  t.same(linesOf('config/a.schema.json', '{\n  "description": "A \\"b\\" c.",\n  "type": "object"\n}'), [
    [2, 'A "b" c.'],
  ])
  t.same(linesOf('a.yaml', '# yaml-language-server: $schema=x\na: "#b" # Says c.\n# Of [{ d: e }].\n'), [
    [2, 'Says c.'],
    [3, 'Of `x`.'],
  ])
  t.same(linesOf('policies/a.test.yaml', 'tests:\n  - name: members read\n'), [[2, 'Members read']])
  t.same(linesOf('a.sql', "-- One.\nselect '-- two';\n"), [[1, 'One.']])
  t.same(linesOf('Dockerfile', '# One.\nRUN x\n'), [[1, 'One.']])
})

const planted: readonly (readonly [rule: string, severity: string, file: string, text: string])[] = [
  ['Crowd', 'error', 'README.md', 'Somebody reads it.\n'],
  ['Crowd', 'error', 'gateway/a.ts', '// The key that nobody has.\n'],
  ['Crowd', 'error', 'gateway/a.ts', "log.warn('the listener lets nobody in')\n"],
  ['Crowd', 'error', 'config/a.schema.json', '  "description": "The key that everybody has.",\n'],
  ['Headless', 'error', 'gateway/a.ts', '/** What is read. */\n'],
  ['Headless', 'error', 'gateway/a.ts', "command.description('Prints it. Who asks is told.')\n"],
  ['Headless', 'error', 'README.md', '**What is read** is told.\n'],
  ['Headless', 'error', 'README.md', 'It is read. **Where it lies** is told.\n'],
  ['Headless', 'error', 'helm/values.yaml', '# Where it is.\n'],
  ['Headless', 'error', 'test/a.test.ts', "t.test('who asks is told', () => {})\n"],
  ['Length', 'warning', 'SECURITY.md', `${'A word '.repeat(15)}ends.\n`],
  ['Negation', 'warning', 'scripts/a.js', '// This is no comment.\n'],
  ['Semicolons', 'warning', 'CHANGELOG.md', 'One: two; three.\n'],
]

testUnlessLacking(
  t,
  'each rule finds its habit, in every kind of text',
  async (t) => {
    const place = (file: string, folder: string) => join(dirname(file), folder, basename(file))
    const files = planted.map(([, , file, text], index): Text => [place(file, String(index)), text])
    const innocent: Text = ['gateway/a.ts', '/** Bytes that were read. */\n']
    const { alerts } = checkTexts(vale ?? '', [...files, innocent])
    for (const [index, [rule, severity, , text]] of planted.entries()) {
      const [file] = files[index] ?? ['']
      const own = alerts.filter((alert) => alert.file === file)
      t.match(own, [{ file, line: 1, rule: `Plain.${rule}`, severity }], text)
      t.equal(own.length, 1, text)
      t.equal(judgeProse({ alerts: own, comments: [] }).isGood, false)
    }
    t.equal(alerts.length, planted.length, 'and the innocent text has none')
  },
  vale === undefined ? 'Vale is missing (node scripts/install-tools.js vale)' : undefined,
)

t.test('a migration is read before it runs anywhere, and left alone afterwards', async (t) => {
  const folder = 'gateway/directory/postgres/migrations'
  for (const settled of ['own/0100.do.tables.sql', 'shared/0101.do.shared-tables.sql', 'adopted/0102.do.watch.sql'])
    t.notOk(isChecked(`${folder}/${settled}`), settled)
  for (const coming of ['own/0103.do.x.sql', 'shared/0104.do.x.sql', 'adopted/0110.do.x.sql'])
    t.ok(isChecked(`${folder}/${coming}`), coming)
})

t.test('more comments than allowed are told', async (t) => {
  const judge = (...counts: readonly number[]) =>
    judgeProse({ alerts: [], comments: [...counts.map((count) => ['gateway/a.ts', count] as const), ['test/b.ts', 9]] })
  t.same(judge(1_000, 1_500), { lines: ['prose: 0 alerts'], isGood: true })
  t.same(judge(1_000, 1_501), {
    lines: ['gateway has 2501 comments and may have 2500', 'prose: 0 alerts'],
    isGood: false,
  })
})
