import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import t, { type Test } from 'tap'
import { organizationsOf, writePolicies } from '../support/claims-gateway.ts'
import { call } from '../support/client.ts'
import { repository } from '../support/deploy.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { bearer, oauth } from '../support/world.ts'

const folder = join(repository, '.sallyport', 'oidc-provider')
const lack = existsSync(join(folder, '.lock')) ? undefined : 'no oidc-provider: run scripts/install-tools.js companions'

const [readable, opaque] = ['https://api.example', 'https://opaque.example']
const client = { id: 'app', secret: 'secret-of-the-app', back: 'http://127.0.0.1/back' }

type Saved = Readonly<{
  addOIDCScope: (scope: string) => void
  addResourceScope: (resource: string, scope: string) => void
  save: () => Promise<string>
}>

/** The members of oidc-provider that the test calls. */
type Provider = Readonly<{
  callback: () => (request: IncomingMessage, response: ServerResponse) => void
  interactionDetails: (
    request: IncomingMessage,
    response: ServerResponse,
  ) => Promise<{ prompt: { name: string }; params: Record<string, string>; session?: { accountId: string } }>
  interactionFinished: (request: IncomingMessage, response: ServerResponse, result: object) => Promise<void>
  Grant: new (of: object) => Saved
}>

const settings = {
  clients: [
    {
      client_id: client.id,
      client_secret: client.secret,
      redirect_uris: [client.back],
      grant_types: ['authorization_code', 'refresh_token', 'client_credentials'],
    },
  ],
  cookies: { keys: [randomBytes(16).toString('hex')] },
  scopes: ['openid', 'offline_access', 'read'],
  pkce: { required: () => false },
  issueRefreshToken: () => true,
  findAccount: (_: unknown, sub: string) => ({ accountId: sub, claims: () => ({ sub }) }),
  interactions: { url: () => '/interaction' },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_: unknown, audience: string) => ({
        audience,
        scope: 'read',
        accessTokenFormat: audience === readable ? 'jwt' : 'opaque',
      }),
    },
  },
}

type Tokens = Readonly<Record<'access_token' | 'id_token' | 'refresh_token', string>>

/** A provider at which Ada logs in, and consents to all. */
async function startProvider(t: Test) {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  const entry = join(folder, 'node_modules', 'oidc-provider', 'lib', 'index.js')
  const { default: Provider } = (await import(pathToFileURL(entry).href)) as {
    default: new (issuer: string, settings: object) => Provider
  }
  const provider = new Provider(issuer, settings)
  const handle = provider.callback()
  const interact = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { prompt, params, session } = await provider.interactionDetails(request, response)
    const finish = (result: object) => provider.interactionFinished(request, response, result)
    if (prompt.name === 'login') return finish({ login: { accountId: 'ada' } })
    const grant = new provider.Grant({ accountId: session?.accountId, clientId: client.id })
    grant.addOIDCScope(params.scope ?? '')
    grant.addResourceScope(params.resource ?? '', 'read')
    return finish({ consent: { grantId: await grant.save() } })
  }
  server.on('request', (request, response) => {
    if (request.url?.startsWith('/interaction')) interact(request, response).catch(() => response.destroy())
    else handle(request, response)
  })
  const post = async (path: string, form: Readonly<Record<string, string>>): Promise<Tokens> => {
    const authorization = `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString('base64')}`
    const answer = await fetch(issuer + path, {
      method: 'POST',
      headers: { authorization },
      body: new URLSearchParams(form),
    })
    return (answer.headers.get('content-type')?.includes('json') ? await answer.json() : {}) as Tokens
  }
  return { issuer, post, logIn: (resource: string) => logIn(issuer, resource, post) }
}

async function logIn(
  issuer: string,
  resource: string,
  post: (path: string, form: Readonly<Record<string, string>>) => Promise<Tokens>,
): Promise<Tokens> {
  const cookies = new Map<string, string>()
  const asked = { client_id: client.id, response_type: 'code', scope: 'openid offline_access read' }
  const wanted = new URLSearchParams({ ...asked, redirect_uri: client.back, resource, prompt: 'consent' })
  let url = `${issuer}/auth?${wanted}`
  for (let step = 0; step < 10; step++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ')
    const answer = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    url = new URL(answer.headers.get('location') ?? '', issuer).href
    const code = new URL(url).searchParams.get('code')
    if (url.startsWith(client.back) && code !== null)
      return post('/token', { grant_type: 'authorization_code', code, redirect_uri: client.back, resource })
  }
  throw new Error('no login')
}

async function tryShapes(t: Test): Promise<void> {
  const { issuer, post, logIn } = await startProvider(t)
  const upstream = await startHttpUpstream(t, (request, response) => response.end(JSON.stringify(request.headers)))
  const gateway = await startTestGateway(t, {
    upstreams: { platform: { url: upstream.url } },
    settings: {
      database: undefined,
      directory: { kind: 'claims' },
      policies: { directory: writePolicies(t, organizationsOf(issuer)).directory },
      issuers: [
        {
          issuer,
          audience: [readable, opaque],
          requireType: 'at+jwt',
          scopes: { read: ['datasets:read'] },
          tokens: { header: true, bearer: true },
          introspection: {
            endpoint: `${issuer}/token/introspection`,
            clientId: client.id,
            clientSecret: client.secret,
            cacheMs: 1_000,
          },
          directoryRules: [{ claim: '/client_id', matches: client.id, organization: 'acme', role: 'org-member' }],
        },
      ],
    },
  })
  const ask = (token: string, path = '/datasets') => call(gateway.public, { path, headers: oauth({ jwt: token }) })
  const identityOf = async (token: string) => {
    const { text } = await ask(token)
    const [, payload = ''] = String(JSON.parse(text)['x-gateway-identity']).split('.')
    return JSON.parse(Buffer.from(payload, 'base64url').toString())
  }
  const user = await logIn(readable)
  const hidden = await logIn(opaque)
  const own = await post('/token', { grant_type: 'client_credentials', resource: readable, scope: 'read' })

  await t.test('a JWT and an opaque token of a user have the same identity', async (t) => {
    t.match(user.access_token, /^eyJ/)
    t.notMatch(hidden.access_token, /\./)
    for (const { access_token: token } of [user, hidden])
      t.match(await identityOf(token), {
        sub: `${issuer}|ada`,
        organization: { slug: 'acme', role: 'org-member' },
        abilities: ['datasets:read'],
      })
    t.equal((await call(gateway.public, { path: '/datasets', headers: bearer(user.access_token) })).status, 200)
  })
  await t.test('a client’s own token stays apart from users', async (t) =>
    t.equal((await identityOf(own.access_token)).sub, `${issuer}#client|${client.id}`),
  )
  await t.test('ID and refresh tokens do not pass for access tokens', async (t) => {
    for (const { id_token: id, refresh_token: refresh } of [user, hidden])
      for (const token of [id, refresh]) {
        t.type(token, 'string')
        t.equal((await ask(token)).status, 401)
      }
  })
  await t.test('a token that the provider revoked is 401', async () => {
    await post('/token/revocation', { token: hidden.access_token })
    await until(async () => (await ask(hidden.access_token)).status === 401, 'revoked')
  })
}

testUnlessLacking(t, 'the tokens of oidc-provider', tryShapes, lack)
