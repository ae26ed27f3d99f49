import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const text = readFileSync(`${repository}/SECURITY.md`, 'utf8')
const linked = [...text.matchAll(/\]\((test\/[^)]+)\)/g)].map(([, path]) => path ?? '')

const tests = readdirSync(`${repository}/test/advisories`)
  .filter((name) => name.endsWith('.test.ts') && name !== 'table.test.ts')
  .sort()

t.test('every class in SECURITY.md has its test', async (t) => {
  const [, ...rows] = text.slice(text.indexOf('| Class |')).trim().split('\n').slice(1)
  t.ok(rows.length > 20)
  for (const row of rows) t.match(row, /\]\(test\/[^)]+\)/, row.slice(0, 60))
  for (const path of linked) t.ok(existsSync(`${repository}/${path}`), path)
})

t.test('each resource that an outsider can spend has a bound, a metric and a test', async (t) => {
  const metrics = readFileSync(`${repository}/docs/reference/metrics.md`, 'utf8')
  const [, section = ''] = text.split('## What an outsider can spend')
  const rows = (section.split('\n## ')[0] ?? '').split('\n').filter((line) => line.startsWith('|'))
  t.ok(rows.length > 20)
  for (const row of rows.slice(2)) {
    const [resource = '', , bound = '', metric = '', test = ''] = row.split('|').slice(1, -1)
    t.ok(bound.trim() !== '', resource)
    const [, name = ''] = /`(\w+)`/.exec(metric) ?? []
    t.ok(name !== '' && metrics.includes(name), `${resource}: ${name}`)
    t.match(test, /\]\(test\/[^)]+\)/, resource)
  }
})

/** Their defences are in the tests themselves: they keep the suite from failing by chance, and no attacker out. */
const ofSuite = ['busy-machine.test.ts']

t.test('every test of this folder stands for a class in SECURITY.md', async (t) => {
  const missing = tests.filter((name) => !ofSuite.includes(name) && !linked.includes(`test/advisories/${name}`))
  t.same(missing, [])
})

t.test('README.md of this folder names every test and its defence, and nothing else', async (t) => {
  const guide = readFileSync(`${repository}/test/advisories/README.md`, 'utf8')
  const rows = guide.split('\n').filter((line) => line.startsWith('| ['))
  const named = rows.map((row) => /^\| \[[\w-]+\]\(([\w.-]+)\) \|/.exec(row)?.[1] ?? row)
  t.same(named, tests)
  const defences = /`(gateway|test\/support)\/[\w/-]+\.ts` \(`/
  for (const [index, row] of rows.entries()) {
    const [, room] = defences.exec(row) ?? []
    t.equal(room, ofSuite.includes(named[index] ?? '') ? 'test/support' : 'gateway', row.slice(0, 60))
  }
  for (const [, path = '', names = ''] of guide.matchAll(
    /`((?:gateway|config|test\/support)\/[^`]+)`(?: \(([^)]*)\))?/g,
  )) {
    t.ok(existsSync(`${repository}/${path}`), path)
    const source = readFileSync(`${repository}/${path}`, 'utf8')
    for (const [, name = ''] of names.matchAll(/`([^`]+)`/g)) t.ok(source.includes(name), `${path}: ${name}`)
  }
})

t.test('an identifier has the form of one', async (t) => {
  for (const [identifier] of text.matchAll(/\b(?:CVE|GHSA)-[\w-]+/g))
    t.match(identifier, /^(?:CVE-(?:19|20)\d{2}-\d{4,7}|GHSA(?:-[23456789cfghjmpqrvwx]{4}){3})$/, identifier)
})
