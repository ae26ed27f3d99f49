import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const folder = `${repository}/test/advisories`
const page = readFileSync(`${folder}/README.md`, 'utf8')
const [classes = '', guards = ''] = page.split('\n## What each of these tests guards\n')
const budgets = readFileSync(`${repository}/docs/explanation/budgets.md`, 'utf8')

type Link = Readonly<{ name: string; path: string }>

/** The tests to which a text of a folder leads, by their paths from the repository. */
const listTests = (text: string, base: string): readonly Link[] =>
  [...text.matchAll(/\[([^\]]+)\]\(([^)]+\.(?:test|gate)\.ts)\)/g)].map(([, name = '', path = '']) => ({
    name,
    path: posix.join(base, path),
  }))

const linked = listTests(classes, 'test/advisories')

const tests = readdirSync(folder)
  .filter((name) => name.endsWith('.test.ts') && name !== 'table.test.ts')
  .sort()

t.test('every class of advisories has one line and its test', async (t) => {
  const [, ...rows] = classes.slice(classes.indexOf('| Class |')).trim().split('\n').slice(1)
  t.ok(rows.length > 20)
  for (const row of rows) t.not(listTests(row, 'test/advisories').length, 0, row.slice(0, 60))
  const names = rows.map((row) => row.split(' | ')[0])
  t.same(names, [...new Set(names)])
})

t.test('a link leads to a test and has its name', async (t) => {
  for (const { name, path } of [...linked, ...listTests(budgets, 'docs/explanation')]) {
    t.ok(existsSync(`${repository}/${path}`), path)
    t.equal(posix.basename(path).replace(/\.(?:test|gate)\.ts$/, ''), name, path)
  }
})

t.test('each resource that an outsider can spend has a bound, a metric and a test', async (t) => {
  const metrics = readFileSync(`${repository}/docs/reference/metrics.md`, 'utf8')
  const rows = budgets.split('\n').filter((line) => line.startsWith('|'))
  t.ok(rows.length > 20)
  for (const row of rows.slice(2)) {
    const [resource = '', , bound = '', metric = '', test = ''] = row.split('|').slice(1, -1)
    t.ok(bound.trim() !== '', resource)
    const [, name = ''] = /`(\w+)`/.exec(metric) ?? []
    t.ok(name !== '' && metrics.includes(name), `${resource}: ${name}`)
    t.not(listTests(test, 'docs/explanation').length, 0, resource)
  }
})

t.test('every test of this folder stands for a class of advisories', async (t) => {
  const paths = new Set(linked.map(({ path }) => path))
  const missing = tests.filter((name) => !paths.has(`test/advisories/${name}`))
  t.same(missing, [])
})

t.test('the second table names every test and its defence, and nothing else', async (t) => {
  const rows = guards.split('\n').filter((line) => line.startsWith('| ['))
  const named = rows.map((row) => /^\| \[[\w-]+\]\(([\w.-]+)\) \|/.exec(row)?.[1] ?? row)
  t.same(named, tests)
  for (const row of rows) t.match(row, /`gateway\/[\w/-]+\.ts` \(`/, row.slice(0, 60))
  for (const [, path = '', names = ''] of guards.matchAll(/`((?:gateway|config)\/[^`]+)`(?: \(([^)]*)\))?/g)) {
    t.ok(existsSync(`${repository}/${path}`), path)
    const source = readFileSync(`${repository}/${path}`, 'utf8')
    for (const [, name = ''] of names.matchAll(/`([^`]+)`/g)) t.ok(source.includes(name), `${path}: ${name}`)
  }
})

t.test('an identifier has the form of one', async (t) => {
  for (const [identifier] of page.matchAll(/\b(?:CVE|GHSA)-[\w-]+/g))
    t.match(identifier, /^(?:CVE-(?:19|20)\d{2}-\d{4,7}|GHSA(?:-[23456789cfghjmpqrvwx]{4}){3})$/, identifier)
})
