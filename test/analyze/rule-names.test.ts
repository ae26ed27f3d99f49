import t, { type Test } from 'tap'
import { runCommand } from '../support/command-line.ts'
import { writeConfiguration } from '../support/gateway.ts'

const checkPolicy = (t: Test, rule: object) => {
  const settings = {
    database: undefined,
    directory: { kind: 'claims' },
    issuers: [{ issuer: 'https://login.example', audience: 'api', directoryRules: [rule] }],
  }
  return runCommand(['policy', 'check', '--config', writeConfiguration(t, { settings, routes: [route] })])
}

const route = { id: 'one', match: { path: '/one' }, surface: 'platform', upstream: 'platform' }

t.test('policy check refuses a directory rule for a role or organization that no policy has', async (t) => {
  const { code, stderr } = await checkPolicy(t, {
    claim: '/groups',
    matches: 'admins',
    organization: 'acme',
    role: 'org-amdin',
  })
  t.equal(code, 2)
  t.match(stderr, /gateway\.yaml:1:\d+: error: .*role "org-amdin" is in no policy; did you mean "org-admin"\?/)
  t.match(stderr, /organization "acme" is in no policy/)
})

t.test('policy check takes a directory rule for a role of the policy', async (t) => {
  const { code, stdout, stderr } = await checkPolicy(t, { claim: '/roles', matches: 'root', platformRole: 'admin' })
  t.equal(code, 0, stderr)
  t.match(stdout, /1 routes/)
})

const checkIssuers = (t: Test, ...issuers: readonly object[]) => {
  const settings = {
    issuers: issuers.map((own, index) => ({ issuer: `https://${index}.example`, audience: 'api', ...own })),
  }
  return runCommand(['policy', 'check', '--config', writeConfiguration(t, { settings, routes: [route] })])
}

t.test('policy check refuses issuers with which the gateway would not start', async (t) => {
  const subject = await checkIssuers(t, { claims: { subject: '/preferred_username' } })
  t.equal(subject.code, 2)
  t.match(subject.stderr, /gateway\.yaml:1:\d+: error: issuers: claims\.subject of .* is an e-mail address or name/)
  const introspection = { clientId: 'a', clientSecret: 'b' }
  const second = await checkIssuers(t, { introspection }, { introspection })
  t.equal(second.code, 2)
  t.match(second.stderr, /introspection of https:\/\/1\.example is the second one/)
  t.equal((await checkIssuers(t, { claims: { subject: '/oid' }, introspection })).code, 0)
})

t.test('policy check refuses a route by role alone beside scopes, which could not bound it', async (t) => {
  const check = (issuers: readonly object[], requirement: object | undefined) => {
    const settings = { issuers: issuers.map((own) => ({ issuer: 'https://login.example', audience: 'api', ...own })) }
    const routes = [{ ...route, ...(requirement && { require: requirement }) }]
    return runCommand(['policy', 'check', '--config', writeConfiguration(t, { settings, routes })])
  }
  const scopes = { read: ['datasets:read'], full: ['*'] }
  const { code, stderr } = await check([{ scopes }], { role: 'org-owner' })
  t.equal(code, 2)
  t.match(
    stderr,
    /\.yaml:\d+:1: error: route "one" requires a role and no ability: every JWT of https:\/\/login\.example/,
  )
  t.equal((await check([{ scopes }], { role: 'org-member', ability: 'datasets:read' })).code, 0)
  t.equal((await check([{ scopes }], { ability: 'datasets:read' })).code, 0)
  const named = await check([{}], { role: 'org-owner' })
  t.equal(named.code, 0, named.stderr)
  t.match(named.stdout, /warning: route "one" .*: every API token of a holder passes, and every JWT with scopes/)
  t.equal((await check([{ scopes }], undefined)).code, 0, 'a route that asks for nothing relies on no right')
})
