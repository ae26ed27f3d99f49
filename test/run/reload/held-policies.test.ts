import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parsePolicy } from '../../../gateway/policy/load.ts'
import { createMissingFiles, findPlaces, missingMs, type Table } from '../../../gateway/run/reload/held-policies.ts'

const roles = readFileSync(new URL('../../../policies/roles.yaml', import.meta.url), 'utf8')
const route = (id: string, path = `/${id}`): object => ({
  id,
  match: { path },
  surface: 'platform',
  access: 'public',
  upstream: 'u',
})
const routes = (...ids: readonly string[]): string => JSON.stringify({ routes: ids.map((id) => route(id)) })

function table(files: Readonly<Record<string, string>>, places = ['/p']): Table {
  const texts = new Map(Object.entries({ 'roles.yaml': roles, ...files }))
  return { policy: parsePolicy('/p', texts, new Set(['u'])), texts, places: new Set(places) }
}

function watch() {
  let nowMs = 0
  const missing = createMissingFiles('/p', () => nowMs)
  return { ...missing, pass: (ms: number) => (nowMs += ms) }
}

const before = table({ 'a.yaml': routes('a'), 'b.yaml': routes('b') })
const lost = { reason: 'file_missing', names: ['b.yaml'], untilMs: Number.POSITIVE_INFINITY }

t.test('a missing file is waited for, and only then judged', async (t) => {
  const { wait, pass } = watch()
  const fresh = table({ 'a.yaml': routes('a') })
  pass(5)
  t.match(wait(before, fresh.texts), { reason: 'file_missing', names: ['b.yaml'], untilMs: 5 + missingMs })
  pass(missingMs - 1)
  t.ok(wait(before, fresh.texts))
  pass(1)
  t.equal(wait(before, fresh.texts), undefined)
  t.equal(wait(before, before.texts), undefined, 'it is back')
  t.ok(wait(before, fresh.texts), 'the time begins anew')
})

t.test('a file that stays away is held back, unless its routes are elsewhere or all files are others', async (t) => {
  const { judge } = watch()
  t.same(judge(before, table({ 'a.yaml': routes('a') })), lost)
  t.same(judge(before, table({ 'a.yaml': routes('a'), 'c.yaml': routes('other') })), lost)
  t.equal(judge(before, table({ 'a.yaml': routes('a', 'b') })), undefined)
  t.equal(judge(before, table({ 'c.yaml': routes('a', 'b') })), undefined)
  t.equal(judge(before, table({ 'a.yaml': routes('a') }, ['/p/..2'])), undefined, 'a symbolic link was replaced')
  t.same(judge(before, table({ 'a.yaml': routes('a') }, ['/p', '/q'])), lost, 'one of them is where it was')
  t.same(judge(before, table({ 'a.yaml': routes('a') }, [])), lost, 'nothing is known of their place')
})

t.test('a file without routes must leave the roles as they were', async (t) => {
  const { judge } = watch()
  const [scopes = '', rest = ''] = [
    /^tokenScopes:\n(?: .*\n|\n)*/m.exec(roles)?.[0],
    roles.replace(/^tokenScopes:\n(?: .*\n|\n)*/m, ''),
  ]
  const full = table({ 'a.yaml': routes('a'), 'roles.yaml': rest, 'b.yaml': scopes })
  const fewer = scopes.replace('    - models:read\n', '')
  t.not(fewer, scopes)
  t.same(judge(full, table({ 'a.yaml': routes('a'), 'roles.yaml': rest, 'c.yaml': fewer })), lost)
  t.equal(judge(full, table({ 'a.yaml': routes('a'), 'roles.yaml': rest, 'c.yaml': scopes })), undefined)
})

t.test('a table that has lost every route with its files is held back, whatever was turned', async (t) => {
  const { judge } = watch()
  t.match(judge(before, table({}, ['/q'])), { reason: 'no_routes' })
  t.equal(judge(before, table({ 'a.yaml': routes(), 'b.yaml': routes() })), undefined, 'an author wrote so')
})

t.test('the place of a file is where its symbolic links lead', async (t: Test) => {
  const folder = t.testdir()
  for (const version of ['..1', '..2']) {
    mkdirSync(join(folder, version))
    writeFileSync(join(folder, version, 'a.yaml'), '')
  }
  symlinkSync('..1', join(folder, '..data'))
  symlinkSync(join('..data', 'a.yaml'), join(folder, 'a.yaml'))
  const texts = new Map([['a.yaml', '']])
  t.same([...(await findPlaces(folder, texts))], [join(folder, '..1')])
  symlinkSync('..2', join(folder, '..new'))
  renameSync(join(folder, '..new'), join(folder, '..data'))
  t.same([...(await findPlaces(folder, texts))], [join(folder, '..2')])
})
