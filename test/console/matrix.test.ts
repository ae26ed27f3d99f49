import { createHash } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { toText } from '../../console/html.ts'
import { type MatrixLine, renderMatrix, renderMatrixPage, renderSearch } from '../../console/matrix.ts'
import { buildMatrix } from '../../gateway/analyze/matrix.ts'
import { parsePolicy } from '../../gateway/policy/load.ts'
import { formatMatrix } from '../../gateway/tools/cli/policy/matrix.ts'
import { runCommand } from '../support/command-line.ts'
import { parseTable, writeTable } from '../support/policy-table.ts'

const policies = fileURLToPath(new URL('../../policies', import.meta.url))

const lines = buildMatrix(
  parseTable({
    routes: [
      '/things GET require: { role: org-member, ability: things:read }',
      '/things/:id DELETE require: { role: org-admin }',
      '/open GET access: public',
    ],
  }),
)

/** The cells of each line, and whether it is hidden. */
const rowsOf = (text: string) =>
  [...text.matchAll(/<tr data-words="([^"]*)"( hidden)?>(.*?)<\/tr>/gs)].map(([, words = '', hidden, row = '']) => ({
    words,
    isHidden: hidden !== undefined,
    cells: [...row.matchAll(/<td class="(yes|no)(?: first)?">(\w+)<\/td>/g)].map(([, kind, name]) => `${kind} ${name}`),
  }))

t.test('the page says of every route and caller the same as the other formats', async (t) => {
  const marks = formatMatrix(lines, 'csv')
    .trimEnd()
    .split('\r\n')
    .slice(1)
    .map((line) => line.split(',').slice(3))
  t.same(
    rowsOf(toText(renderMatrix(lines))).map(({ cells }) => cells.map((cell) => cell.split(' ')[1])),
    marks,
  )
  for (const { cells } of rowsOf(toText(renderMatrix(lines))))
    t.ok(
      cells.every((cell) => /^(?:yes yes|no (?!yes).*)$/.test(cell)),
      'a colour says what the word says',
    )
})

t.test('every head has its scope, and the heads span what stands below them', async (t) => {
  const text = toText(renderMatrix(lines))
  t.notMatch(text, /<th(?! scope)[ >]/)
  const spans = [...text.matchAll(/colspan="(\d+)"/g)].map(([, span]) => Number(span))
  t.equal(
    spans.reduce((sum, span) => sum + span, 0),
    lines[0]?.cells.length,
  )
  t.match(text, /<caption[^>]*>Access by route/)
})

t.test('a search leaves the lines in which every word occurs, and counts them', async (t) => {
  const visible = (search: string) =>
    rowsOf(toText(renderMatrix(lines, search)))
      .filter(({ isHidden }) => !isHidden)
      .map(({ words }) => words.split(' ')[words.startsWith('get head') ? 2 : 1])
  t.same(visible(''), ['/things', '/things/:id', '/open'])
  t.same(visible('  THINGS '), ['/things', '/things/:id'])
  t.same(visible('things delete'), ['/things/:id'])
  t.same(visible('r2'), ['/open'])
  t.same(visible('table.yaml'), ['/things', '/things/:id', '/open'])
  t.same(visible('things nothing'), [])
  t.match(toText(renderSearch(lines, 'things', '/')), />2 of 3 routes</)
  t.match(toText(renderSearch(lines, '"><b>', '/')), 'value="&quot;&gt;&lt;b&gt;"')
})

const hostile = `"><img src=x onerror=alert(1)>'</script></style><!--`

t.test('nothing of a table can become markup of the page', async (t) => {
  const hostileLine: MatrixLine = {
    route: hostile,
    source: `${hostile}:1`,
    methods: ['GET'],
    path: `/${hostile}`,
    cells: [{ role: hostile, credential: hostile, outcome: 'allowed' }],
  }
  const text = renderMatrixPage([hostileLine])
  t.notMatch(text, /<img|onerror=alert\(1\)>|<!--/)
  t.equal(text.match(/<\/script>/g)?.length, 1)
  t.equal(text.match(/<\/style>/g)?.length, 1)
})

t.test('a file with a hostile name and a path of markup are shown as they are', async (t) => {
  const name = '<svg onload=alert(1)>.yaml'
  const text = writeTable({ routes: ["/<b>'x'&lt; GET require: { role: org-member }"] })
  const policy = parsePolicy('', new Map([[name, text]]), Object.assign(new Set<string>(), { has: () => true }))
  const page = renderMatrixPage(buildMatrix(policy))
  t.notMatch(page, /<svg onload|<b>/)
  t.match(page, '<code>/&lt;b&gt;&#39;x&#39;&amp;lt;</code>')
  t.match(page, '&lt;svg onload=alert(1)&gt;.yaml')
})

t.test('the page stands alone: it asks no server for anything, and runs nothing but its own script', async (t) => {
  const page = renderMatrixPage(lines)
  t.notMatch(page, /https?:(?!\/\/www\.w3\.org\/2000\/svg)|\bsrc=|@import|url\(/)
  const [, policy = ''] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(page) ?? []
  for (const part of ['script', 'style']) {
    const [, content = ''] = new RegExp(`<${part}>(.*?)</${part}>`, 's').exec(page) ?? []
    const hash = createHash('sha256').update(content).digest('base64')
    t.match(policy, `${part}-src &#39;sha256-${hash}&#39;`)
  }
  t.match(policy, /^default-src &#39;none&#39;;/)
  t.notMatch(policy, /unsafe|connect-src/)
})

t.test('sallyport policy matrix --format html writes that page, the same for the same table', async (t) => {
  const run = () => runCommand(['policy', 'matrix', '--policies', policies, '--format', 'html'])
  const [one, other] = await Promise.all([run(), run()])
  t.same([one.code, one.stderr], [0, ''])
  t.match(one.stdout, /^<!doctype html>\n<html lang="en">/)
  t.match(one.stdout, /<code>\/datasets\/:id<\/code>/)
  t.equal(one.stdout, other.stdout)
})
