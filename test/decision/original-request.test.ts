import t from 'tap'
import { readOriginalRequest } from '../../gateway/decision/original-request.ts'

const read = (target: string, headers: readonly string[] = [], method = 'GET') =>
  readOriginalRequest({ method, target, headers })

t.test('Traefik and Caddy name the original request in X-Forwarded-*', async (t) => {
  const headers = ['X-Forwarded-Method', 'PUT', 'X-Forwarded-Uri', '/a?b', 'X-Forwarded-Host', 'a.example']
  t.same(read('/authorize', headers), { method: 'PUT', target: '/a?b', host: 'a.example' })
})

t.test('nginx names it in X-Original-*, and its host in Host', async (t) => {
  const headers = ['X-Original-Method', 'PUT', 'X-Original-URI', '/a?b', 'X-Forwarded-Host', 'evil.example']
  t.same(read('/authorize', headers), { method: 'PUT', target: '/a?b', host: undefined })
})

t.test('Envoy asks with the request itself', async (t) => {
  const headers = ['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', '/public/x']
  t.same(read('/envoy/admin/x?y', headers, 'DELETE'), { method: 'DELETE', target: '/admin/x?y', host: undefined })
})

for (const [name, headers] of Object.entries({
  'both families with different values': [
    ...['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', '/public/x'],
    ...['X-Original-Method', 'GET', 'X-Original-URI', '/admin/x'],
  ],
  'a header on two lines': ['X-Original-Method', 'GET', 'X-Original-URI', '/a', 'X-Original-URI', '/a'],
  'a header in two spellings': ['X-Original-Method', 'GET', 'X-Original-URI', '/a', 'X_Original_URI', '/b'],
  'no target': ['X-Original-Method', 'GET'],
  'no method': ['X-Original-URI', '/a'],
  'nothing at all': [],
}))
  t.test(`${name} is refused as ambiguous_target`, async (t) => {
    t.throws(() => read('/authorize', headers), { code: 'ambiguous_target', status: 400 })
  })

t.test('a host that is none is refused as ambiguous_target', async (t) => {
  const headers = ['X-Forwarded-Method', 'GET', 'X-Forwarded-Uri', '/a', 'X-Forwarded-Host']
  for (const host of ['a.example:', 'a.example, b.example', 'x@a.example', ''])
    t.throws(() => read('/authorize', [...headers, host]), { code: 'ambiguous_target', status: 400 }, host)
})
