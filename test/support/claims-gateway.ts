import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { startKeyedIssuer } from './cause-people.ts'
import { type Answer, type Call, call, type JsonValue } from './client.ts'
import { startTestGateway, type TestGateway } from './gateway.ts'
import { type AnswerHttp, startHttpUpstream } from './http-upstream.ts'
import type { TestWorld } from './world.ts'

export type Organization = Readonly<{ id: number; slug: string; claims?: readonly object[]; accountType?: string }>

export type KeyedIssuer = Awaited<ReturnType<typeof startKeyedIssuer>>

/** The rules of the first issuer, unless a test has others. */
export const groupRules = [
  { claim: '/groups', matches: '/{organization}/{role}' },
  { claim: '/roles', matches: 'platform-admin', platformRole: 'admin' },
  { claim: '/azp', matches: 'importer', userType: 'client-managed' },
]

/** A stream without an agent, since agents are in a database. */
const modelRoute = {
  id: 'claims.model',
  match: { path: '/model/*' },
  surface: 'model',
  stream: 'responses',
  upstream: 'agents',
  require: { role: 'org-client' },
}

const limitedRoute = {
  id: 'claims.limited',
  match: { path: '/limited' },
  surface: 'platform',
  upstream: 'platform',
  rateLimit: 'own',
}

const shipped = fileURLToPath(new URL('../../policies', import.meta.url))

/** The shipped policies, with organizations; the folder goes with the test. */
export function writePolicies(
  t: Test,
  organizations: readonly Organization[],
  rateLimits: Readonly<Record<string, object>> = {},
) {
  const directory = join(mkdtempSync(join(tmpdir(), 'sallyport-test-')), 'policies')
  t.teardown(() => rmSync(join(directory, '..'), { recursive: true, force: true }))
  cpSync(shipped, directory, { recursive: true })
  const roles = join(directory, 'roles.yaml')
  const mayAsk = '- datasets:write\n      - decisions:evaluate\n'
  writeFileSync(roles, readFileSync(roles, 'utf8').replace('- datasets:write\n', mayAsk))
  writeFileSync(
    join(directory, 'more.yaml'),
    JSON.stringify({ rateLimits, routes: [modelRoute, ...(rateLimits.own ? [limitedRoute] : [])] }),
  )
  const write = (changed: readonly Organization[]): void => {
    const file = join(directory, 'organizations.yaml')
    writeFileSync(`${file}.new`, JSON.stringify({ organizations: changed }))
    renameSync(`${file}.new`, file)
  }
  write(organizations)
  return { directory, write }
}

export type ClaimsFixture = Readonly<{
  gateway: TestGateway
  issuer: KeyedIssuer
  call: (call: Call) => Promise<Answer>
  /** The header of a JWT with these claims. */
  as: (claims?: Readonly<Record<string, unknown>>) => Promise<Record<string, string>>
  /** The claims of the identity header at the backend, for a request that must pass. */
  identityOf: (headers: Record<string, string>) => Promise<JsonValue>
  arrived: (id: string) => boolean
  policies: string
  writeOrganizations: (organizations: readonly Organization[]) => void
}>

const answerByPath: AnswerHttp = (request, response) => {
  request.resume()
  const { url = '', headers } = request
  if (url.startsWith('/public/limited')) response.writeHead(429, { 'retry-after': '7' }).end()
  else if (url.startsWith('/model/')) {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (url.endsWith('/leaves')) {
      response.flushHeaders()
      setTimeout(() => response.destroy(), 20)
      return
    }
    response.write(
      'event: response.created\ndata: {"type":"response.created","sequence_number":0,"response":{"id":"r"}}\n\n',
    )
    if (url.endsWith('/breaks')) setTimeout(() => response.destroy(), 20)
  } else response.end(JSON.stringify(headers))
}

export const claimsSettings = (issuer: string, own: object = { directoryRules: groupRules }) => ({
  database: undefined,
  directory: { kind: 'claims' },
  issuers: [{ issuer, audience: 'sallyport-demo', jwksUri: `${issuer}/keys`, ...own }],
})

/** A gateway whose users come from claims; its organizations are `acme`, then `globex`. */
export async function startClaimsFixture(
  t: Test,
  { rules = groupRules, issuerSettings = {}, settings = {}, rateLimits = {}, ...options }: ClaimsFixtureOptions = {},
): Promise<ClaimsFixture> {
  const issuer = await startKeyedIssuer(t)
  const upstream = await startHttpUpstream(t, answerByPath)
  const policies = writePolicies(t, (options.organizations ?? organizationsOf)(issuer.issuer), rateLimits)
  const claims = claimsSettings(issuer.issuer, { directoryRules: rules, ...issuerSettings })
  const gateway = await startTestGateway(t, {
    upstreams: Object.fromEntries(
      ['platform', 'agents', 'files', 'graphql', 'data'].map((name) => [name, { url: upstream.url }]),
    ),
    settings: {
      ...claims,
      issuers: [...claims.issuers, ...(options.otherIssuers ?? [])],
      policies: { directory: policies.directory },
      ...settings,
    },
  })
  const ask = (request: Call): Promise<Answer> => call(gateway.public, request)
  return {
    gateway,
    issuer,
    call: ask,
    as: async (claims) => ({ 'x-oauth-access-token': await issuer.sign(claims) }),
    identityOf: async (headers) => {
      const { status, text, json } = await ask({ path: '/public/x', headers })
      if (status !== 200) throw new Error(`${status}: ${text}`)
      const [, payload = ''] = String(json()['x-gateway-identity']).split('.')
      return JSON.parse(Buffer.from(payload, 'base64url').toString())
    },
    arrived: (id) => upstream.ids().includes(id),
    policies: policies.directory,
    writeOrganizations: policies.write,
  }
}

export type ClaimsFixtureOptions = Readonly<{
  rules?: readonly object[]
  issuerSettings?: Readonly<Record<string, unknown>>
  settings?: Readonly<Record<string, unknown>>
  organizations?: typeof organizationsOf
  otherIssuers?: readonly object[]
  /** `own` is that of the route `/limited`. */
  rateLimits?: Readonly<Record<string, object>>
}>

export const organizationsOf = (issuer: string): readonly Organization[] => [
  { id: 7, slug: 'acme', accountType: 'enterprise', claims: [{ issuer, value: 'acme' }] },
  { id: 8, slug: 'globex', claims: [{ issuer, value: 'globex' }] },
]

/** No organization of the demo world has one of these ids or slugs. */
export const declaredOf = (issuer: string): readonly Organization[] => [
  { id: 1_007, slug: 'umbrella', accountType: 'enterprise', claims: [{ issuer, value: 'umbrella' }] },
  { id: 1_008, slug: 'hooli', claims: [{ issuer, value: 'hooli' }] },
]

/** Starts a claims fixture beside the database of a world, whose users come by an issuer without rules. */
export const startJoinedFixture = (
  t: Test,
  { databaseUrl, oidc, patience }: Pick<TestWorld, 'databaseUrl' | 'oidc' | 'patience'>,
  settings: ClaimsFixtureOptions['settings'] = {},
): Promise<ClaimsFixture> =>
  startClaimsFixture(t, {
    rules: [{ claim: '/groups', matches: '/{organization}/{role}' }],
    organizations: declaredOf,
    otherIssuers: [{ issuer: oidc.issuer, audience: 'sallyport-demo' }],
    settings: { database: { url: databaseUrl, ...patience }, directory: { kind: 'both' }, ...settings },
  })
