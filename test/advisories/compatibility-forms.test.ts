import t from 'tap'
import { compilePolicy } from '../../gateway/policy/compile.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { imaginePolicyFile } from '../support/policy-file.ts'

const compile = (rows: Readonly<Record<string, string>>) => {
  const organizationRoles = ['org-client', 'org-member', 'org-admin', 'org-owner'].map((slug) => ({
    slug,
    name: slug,
    abilities: [],
  }))
  const routes = Object.entries(rows).map(([path, role], index) => ({
    id: `row.${index}`,
    match: { path },
    surface: 'platform' as const,
    upstream: 'up',
    require: { role },
  }))
  return compileRoutes(
    compilePolicy([imaginePolicyFile('routes.yaml', { organizationRoles, routes })], new Set(['up'])).routes,
  )
}

const table = compile({
  '/files/*': 'org-member',
  '/files/admin': 'org-owner',
  '/files/admin/keys': 'org-owner',
  '/files/1': 'org-owner',
  '/files/caf%C3%A9': 'org-owner',
})
const find = (path: string): string => table.match(readTarget('GET', path, 'h'), 'h').route.path
const misreadable = { code: 'target_misreadable', status: 400 }

/** Every character beyond ASCII whose compatibility form has this one in it. */
function formsOf(character: string): readonly string[] {
  const forms: string[] = []
  for (let code = 0x80; code <= 0x10ffff; code++) {
    if (code >= 0xd800 && code <= 0xdfff) continue
    const form = String.fromCodePoint(code)
    if (form.normalize('NFKC').includes(character)) forms.push(form)
  }
  return forms
}

// A server that normalizes names (NFKC) reads ․․ (two one dot leaders) as two dots, and ／ as a slash.
t.test('every character that a dot hides in is a dot in one reading', async (t) => {
  const forms = formsOf('.')
  t.ok(forms.length >= 30, `${forms.length} forms`)
  for (const form of forms) {
    const folded = form.normalize('NFKC')
    const escaped = encodeURIComponent(form)
    if (/^\.{1,2}$/.test(folded))
      t.throws(() => find(`/files/x/${escaped}/y`), misreadable, `${escaped} between slashes`)
    // A dot at the end of a name is left out by some.
    if (/^\.+$/.test(folded)) t.throws(() => find(`/files/admin${escaped}`), misreadable, escaped)
  }
  t.throws(() => find('/files/%E2%80%A4%E2%80%A4/x'), misreadable)
  t.throws(() => find(`/files/${encodeURIComponent('⒈')}`), misreadable, 'a digit with its dot')
})

t.test(
  'every character that folds into a slash, backslash, semicolon, percent sign or end of a path is read as one',
  async (t) => {
    for (const slash of ['/', '\\']) {
      const alone = formsOf(slash).filter((form) => form.normalize('NFKC') === slash)
      t.ok(alone.length > 0, slash)
      for (const form of alone) t.throws(() => find(`/files/admin${encodeURIComponent(form)}keys`), misreadable, form)
    }
    const longer = formsOf('/').filter((form) => form.normalize('NFKC').length > 1)
    t.ok(longer.length >= 4, 'account of, addressed to the subject, care of, cada una')
    for (const form of longer) {
      const guarded = compile({ '/files/*': 'org-member', [`/files/${form.normalize('NFKC')}`]: 'org-owner' })
      const path = `/files/${encodeURIComponent(form)}`
      t.throws(() => guarded.match(readTarget('GET', path, 'h'), 'h'), misreadable, form)
    }
    for (const form of formsOf(';'))
      t.throws(() => find(`/files/admin${encodeURIComponent(form)}v=1`), misreadable, form)
    for (const end of ['?', '#']) {
      const first = formsOf(end).filter((form) => form.normalize('NFKC').startsWith(end))
      t.ok(first.length >= 2, end)
      for (const form of first) t.throws(() => find(`/files/admin${encodeURIComponent(form)}x`), misreadable, form)
    }
    for (const form of formsOf('%')) t.throws(() => find(`/files/${encodeURIComponent(form)}61dmin`), misreadable, form)
  },
)

t.test('letters are read by their compatibility forms as well, and marks in every order', async (t) => {
  t.throws(() => find(`/files/${encodeURIComponent('ａｄｍｉｎ')}`), misreadable)
  t.throws(() => find(`/files/${encodeURIComponent('ＡＤＭＩＮ')}`), misreadable)
  t.throws(() => find(`/files/${encodeURIComponent('cafe\u0301')}`), misreadable)
  t.throws(() => find(`/files/${encodeURIComponent('ＡＤＭＩＮ')}/KEYS`), misreadable)
})

t.test('names in compatibility forms pass where they mean no other route', async (t) => {
  for (const name of ['ﬁnal №5', '會議／記錄', 'half ½', 'ｶﾀｶﾅ', '…', 'x…y', 'a．b'])
    if (name !== '…') t.equal(find(`/files/x-${encodeURIComponent(name)}-x`), '/files/*', name)
})

// ICU orders marks by insertion: 1,365 of them cost as much as a whole request.
t.test('more marks in a row than UAX #15 calls stream-safe are refused', async (t) => {
  t.equal(find(`/files/${encodeURIComponent(`a${'\u0301\u0327'.repeat(15)}`)}`), '/files/*')
  t.throws(() => find(`/files/${encodeURIComponent(`a${'\u0301\u0327'.repeat(16)}`)}`), misreadable)
})
