import t from 'tap'

interface Extractor {
  readonly extractProse: (file: string, source: string) => { text: string; lines: number[]; comments: number }
}

const { extractProse }: Extractor = await import(new URL('../../scripts/extract-prose.js', import.meta.url).href)

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
