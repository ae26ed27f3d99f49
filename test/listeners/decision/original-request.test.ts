import t from 'tap'
import { readOriginalRequest } from '../../../gateway/listeners/decision/original-request.ts'

const read = (target: string, headers: readonly string[] = [], { method = 'GET', host = 'here.example' } = {}) =>
  readOriginalRequest({ method, target, headers }, host)

const forwarded = (method: string, target: string, host?: string) => [
  ...['X-Forwarded-Method', method, 'X-Forwarded-Uri', target],
  ...(host === undefined ? [] : ['X-Forwarded-Host', host]),
]
const original = (method: string, target: string) => ['X-Original-Method', method, 'X-Original-URI', target]

t.test('Traefik and Caddy name the original request in X-Forwarded-*', async (t) => {
  const told = { method: 'PUT', target: '/a?b' }
  t.same(read('/authorize', forwarded('PUT', '/a?b', 'a.example')), { ...told, host: 'a.example' })
  t.same(read('/authorize', forwarded('PUT', '/a?b')), { ...told, host: 'here.example' })
})

t.test('nginx names the original request in X-Original-*, and its host in Host', async (t) => {
  const told = { method: 'PUT', target: '/a?b', host: 'here.example' }
  t.same(read('/authorize', original('PUT', '/a?b')), told)
  for (const name of ['X-Forwarded-Host', 'X_Forwarded_Host', 'x+forwarded+host'])
    t.same(
      read('/authorize', [...original('PUT', '/a?b'), name, 'evil.example', name, ':']),
      told,
      `with a lone ${name}`,
    )
})

t.test('Envoy asks with the request itself', async (t) => {
  const headers = [...forwarded('GET', '/public/x', 'evil.example'), ...original('GET', '/public/y')]
  const told = { method: 'DELETE', target: '/admin/x?y', host: 'here.example' }
  for (const prefix of ['/envoy', '/envoy-named'])
    t.same(read(`${prefix}/admin/x?y`, headers, { method: 'DELETE' }), told)
  t.same(read('/envoy/envoy-named/x').target, '/envoy-named/x')
})

t.test('X-Forwarded-* and X-Original-* pass together where they agree in method, target and host', async (t) => {
  const both = (host?: string) => [...original('GET', '/a'), ...forwarded('GET', '/a', host)]
  t.same(read('/authorize', both()), { method: 'GET', target: '/a', host: 'here.example' })
  for (const host of ['here.example', 'HERE.example', 'here.example:443', 'here.example.'])
    t.same(read('/authorize', both(host)), { method: 'GET', target: '/a', host }, host)
  const half = ['X-Forwarded-Method', 'GET']
  t.same(read('/authorize', [...original('GET', '/a'), ...half]), { method: 'GET', target: '/a', host: 'here.example' })
})

for (const [name, headers] of Object.entries({
  'both families with different targets': [...forwarded('GET', '/public/x'), ...original('GET', '/admin/x')],
  'both families with different methods': [...forwarded('GET', '/x'), ...original('DELETE', '/x')],
  'both families with different hosts': [...forwarded('GET', '/x', 'admin.example'), ...original('GET', '/x')],
  'a target of the other family, with another host': [
    ...forwarded('GET', '/x', 'admin.example'),
    ...['X-Original-URI', '/x'],
  ],
  'a method of the other family, with another host': [
    ...original('GET', '/x'),
    ...['X-Forwarded-Method', 'GET', 'X-Forwarded-Host', 'admin.example'],
  ],
  'a method of one family and a target of the other': ['X-Original-URI', '/a', 'X-Forwarded-Method', 'GET'],
  'a header on two lines': [...original('GET', '/a'), 'X-Original-URI', '/a'],
  'a host on two lines': [...forwarded('GET', '/a', 'a.example'), 'X-Forwarded-Host', 'a.example'],
  'a header in two spellings': [...original('GET', '/a'), 'X_Original_URI', '/b'],
  'another spelling alone': ['X_Forwarded_Method', 'GET', 'X_Forwarded_Uri', '/a'],
  'another spelling of the host': [...forwarded('GET', '/a'), 'X.Forwarded.Host', 'a.example'],
  'an empty target': original('GET', ''),
  'an empty method': forwarded('', '/a'),
  'an empty target of the other family': [...forwarded('GET', '/a'), 'X-Original-URI', ''],
  'no target': ['X-Original-Method', 'GET'],
  'no method': ['X-Original-URI', '/a'],
  'nothing at all': [],
  'nothing but a host': ['X-Forwarded-Host', 'a.example'],
}))
  t.test(`${name} is refused as ambiguous_target`, async (t) => {
    t.throws(() => read('/authorize', headers), { code: 'ambiguous_target', status: 400 })
  })

t.test('a malformed host is refused as ambiguous_target', async (t) => {
  for (const host of ['a.example:', 'a.example, b.example', 'x@a.example', ''])
    t.throws(() => read('/authorize', forwarded('GET', '/a', host)), { code: 'ambiguous_target', status: 400 }, host)
})
