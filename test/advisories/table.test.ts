import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const text = readFileSync(`${repository}/SECURITY.md`, 'utf8')
const linked = [...text.matchAll(/\]\((test\/[^)]+)\)/g)].map(([, path]) => path ?? '')

t.test('every class in SECURITY.md has its test', async (t) => {
  const [, ...rows] = text.slice(text.indexOf('| Class |')).trim().split('\n').slice(1)
  t.ok(rows.length > 20)
  for (const row of rows) t.match(row, /\]\(test\/[^)]+\)/, row.slice(0, 60))
  for (const path of linked) t.ok(existsSync(`${repository}/${path}`), path)
})

t.test('every test of an advisory stands for a class there', async (t) => {
  const files = readdirSync(`${repository}/test/advisories`).map((name) => `test/advisories/${name}`)
  const missing = files.filter((path) => !linked.includes(path) && !path.endsWith('/table.test.ts'))
  t.same(missing, [])
})

t.test('an identifier has the form of one', async (t) => {
  for (const [identifier] of text.matchAll(/\b(?:CVE|GHSA)-[\w-]+/g))
    t.match(identifier, /^(?:CVE-(?:19|20)\d{2}-\d{4,7}|GHSA(?:-[23456789cfghjmpqrvwx]{4}){3})$/, identifier)
})
