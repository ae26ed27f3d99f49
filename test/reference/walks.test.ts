import { existsSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { readDocument } from './code-blocks.ts'

const root = fileURLToPath(new URL('../../gateway/', import.meta.url))
const page = readDocument('docs/explanation/walks.md')

type Walk = Readonly<{ title: string; numbers: readonly number[]; files: readonly string[] }>

const walks: readonly Walk[] = page
  .split(/^## /m)
  .slice(1)
  .map((section) => {
    const lines = [...section.matchAll(/^(\d+)\. `(.+?)`/gm)]
    return {
      title: section.slice(0, section.indexOf('\n')),
      numbers: lines.map(([, number]) => Number(number)),
      files: lines.map(([, , file = '']) => file),
    }
  })

/** The files of gateway/ that a file imports, types and later imports among them. */
const listImports = (file: string): ReadonlySet<string> =>
  new Set(
    [...readFileSync(`${root}${file}`, 'utf8').matchAll(/(?:from |import\()'(\.[^']+)'/g)].map(([, target = '']) =>
      posix.join(posix.dirname(file), target),
    ),
  )

/** Files that no earlier one imports, and that import no earlier one. */
const findStrays = (files: readonly string[]): readonly string[] =>
  files.filter((file, index) => {
    const earlier = files.slice(0, index)
    const imported = listImports(file)
    return index > 0 && !earlier.some((other) => imported.has(other) || listImports(other).has(file))
  })

t.test('every file of a walk is there, once, and joined to an earlier one', async (t) => {
  t.equal(walks.length, 7)
  for (const { title, files } of walks) {
    t.ok(files.length > 5, `${title}: its files were found`)
    t.same(files, [...new Set(files)], title)
    const missing = files.filter((file) => !existsSync(`${root}${file}`))
    t.same(missing, [], title)
    if (missing.length === 0) t.same(findStrays(files), [], title)
  }
})

t.test('a file that no import joins to its walk is found', async (t) => {
  t.same(findStrays(['stages/authorize/decide.ts', 'stages/authorize/permissions.ts', 'directory/postgres/rows.ts']), [
    'directory/postgres/rows.ts',
  ])
})

t.test('each subject has a file that refuses or obeys, and a test', async (t) => {
  const [, section = ''] = readDocument('docs/explanation/life-of-a-request.md').split('## Files and tests by subject')
  const rows = [...section.matchAll(/^\| ([a-z].*?) \| (.+) \| `(.+)` \|$/gm)]
  t.ok(rows.length >= 15)
  for (const [, subject = '', files = '', test = ''] of rows) {
    t.ok(existsSync(`${root}../${test}`), test)
    for (const [, file = ''] of files.matchAll(/`(\S+\.ts)`/g))
      t.match(
        readFileSync(`${root}${file}`, 'utf8'),
        /new GatewayError\(|\broute\b|readRequestId/,
        `${subject}: ${file}`,
      )
  }
})

t.test('the page of walks counts the files of each', async (t) => {
  const rows = [...page.matchAll(/^\| \[(.+)\]\(#(.+)\) \| (\d+) \|/gm)]
  t.same(
    rows.map(([, title, , count]) => [title, Number(count)]),
    walks.map(({ title, files }) => [title, files.length]),
  )
  for (const [, title = '', anchor] of rows)
    t.equal(
      anchor,
      title
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    )
  for (const { title, numbers } of walks)
    t.same(
      numbers,
      numbers.map((_, index) => index + 1),
      title,
    )
})
