import t from 'tap'
import { testVectors } from '../support/vectors.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t)
const member = { 'x-oauth-access-token': world.users.member.jwt }

/** Headers that honest clients send, or that change nothing for a backend. */
const standard = new Set(['host', 'origin', 'referer', 'content-type'])

/** Set anew: the gateway's value replaces the client's. */
const rewritten = new Set(['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto'])

/** Names that no list of vectors has, and others of the families. */
const furtherNames = [
  ...['cf-connecting-ipv6', 'destinationurl', 'fastly-client-ip', 'forwarded-for', 'forwarded-for-ip', 'redirect'],
  ...['x-azure-clientip', 'x-azure-socketip', 'x-cluster-client-ip', 'x-method', 'X_Method', 'x.real.ip'],
  ...['original-any', 'x-original-any', 'x-rewrite-any', 'x-envoy-any', 'x-proxy-any', 'proxyany', 'X_Original_URL'],
  ...['SCRIPT_NAME', 'script-name', 'PATH_INFO', 'x-script-name', 'x-path-info', 'x-middleware-subrequest'],
  ...['front-end-https', 'x-scheme', 'x-url-scheme', 'x-remote-addr', 'x-remote-ip'],
  ...[
    'Remote-User',
    'remote_groups',
    'x-remote-user',
    'X-WEBAUTH-USER',
    'x-authenticated-user',
    'x-auth-request-email',
  ],
  ...['x-ms-client-principal-id', 'x-ssl-client-verify', 'ssl-client-cert'],
]

type Vectors = Readonly<{ cases: readonly Readonly<{ header: string }>[] }>

// Symfony CVE-2018-14773 (X-Original-URL, X-Rewrite-URL), httpoxy CVE-2016-5385, and gunicorn's SCRIPT_NAME. A server
// that routes by such a header acts on another request than the judged one.
testVectors(t, 'paths/override-headers.json', 'no header makes another request of one', async (t, vectors) => {
  const published = new Set((vectors as Vectors).cases.map(({ header }) => header.split(' ')[0] ?? ''))
  t.ok(published.size > 60, `${published.size} headers`)
  const headers = new Set([...published, ...furtherNames])
  for (const name of headers) {
    await world.clearRecorder()
    const isHost = name.toLowerCase() === 'host'
    for (const value of ['/public/x', '127.0.0.1']) {
      const lines = { ...member, [name]: value }
      if (isHost && value.startsWith('/')) continue // no host at all: refused as malformed
      const refused = await world.call({ path: '/admin/secrets', headers: lines })
      t.equal(refused.status, 403, `${name}: ${value} on a path that is refused`)
    }
    t.same(await world.recorded(), [], `${name} brings no refused request to a backend`)
    const value = isHost ? 'admin.example' : '/admin/secrets'
    t.equal((await world.call({ path: '/public/x', headers: { ...member, [name]: value } })).status, 200, name)
    const [arrived] = await world.recorded()
    t.equal(arrived?.requestLine, 'GET /public/x HTTP/1.1', name)
    if (standard.has(name.toLowerCase())) continue
    const found = arrived?.headers.filter(([arrivedName]) => arrivedName.toLowerCase() === name.toLowerCase()) ?? []
    if (rewritten.has(name.toLowerCase()))
      t.notOk(
        found.some(([, text]) => text === value),
        `${name} is ours`,
      )
    else t.same(found, [], `${name} does not arrive`)
  }
})
