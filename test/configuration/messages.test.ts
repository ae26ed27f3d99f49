import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { describeFailure } from '../../gateway/configuration/failure.ts'
import { checkConfiguration } from '../../gateway/run/boot/check-configuration.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'

const identityKey = generatePem('EdDSA')
const otherKey = generatePem('ES256')

/** A sound configuration and policy, by sections: a mistake takes the place of one, or comes after them. */
const sections = {
  database: 'database: { url: "postgres://user@db/name" }',
  issuers: 'issuers: [{ issuer: "https://login.example", audience: api }]',
  identity: 'identity: { keys: ["file:key.pem"] }',
  upstreams: 'upstreams: { platform: { url: "http://platform:3333" } }',
  policies: 'policies: { directory: policies }',
}

const roles = `organizationRoles:
  - { slug: org-client, name: Client, abilities: [agents:execute] }
  - { slug: org-member, name: Member, abilities: [datasets:read] }
  - { slug: org-admin, name: Administrator, abilities: [datasets:write] }
  - { slug: org-owner, name: Owner, abilities: [organizations:manage] }
`
const limits = 'rateLimits: { calm: { requests: 5, seconds: 60 } }\n'
const routes = `routes:
  - { id: datasets, surface: platform, match: { path: /datasets }, upstream: platform }
`

type Mistake = Readonly<{
  what: string
  /** Sections of the configuration, by their names; others are added. */
  sections?: Readonly<Record<string, string>>
  /** Policy files, by their names. */
  policies?: Readonly<Record<string, string>>
  /** Keys of one route more. */
  route?: string
  says: readonly string[]
}>

const variable = (text: string): string => `\${${text}}`

const claimsIssuer = (rule: string): string =>
  `issuers: [{ issuer: "https://login.example", audience: api, directoryRules: [${rule}] }]`

const claimsSections = { database: '', directory: 'directory: { kind: claims }' }

const mistakes: readonly Mistake[] = [
  // -- the file --
  {
    what: 'a tab for an indent',
    sections: { drain: 'drain:\n\tdelayMs: 1' },
    says: ['gateway.yaml:7:1: is indented by a tab; write spaces'],
  },
  {
    what: 'a key that stands twice',
    sections: { drain: 'drain: { delayMs: 1, timeoutMs: 2, delayMs: 3 }' },
    says: ['gateway.yaml:6:36: "delayMs" stands twice in this section; keep one'],
  },
  {
    what: 'a bracket that is not closed',
    sections: { upstreams: 'upstreams: { platform: { url: "http://platform:3333" }' },
    says: ['gateway.yaml:5:1: a { before this is not closed; add }'],
  },
  {
    what: 'a quote that is not closed',
    sections: { log: 'log:\n  level: "info' },
    says: ['gateway.yaml:8:1: a quote is not closed; add "'],
  },
  {
    what: 'a key without its colon',
    sections: { drain: 'drain' },
    says: ['gateway.yaml:6:1: a key lacks its colon and value; add the colon, a space and the value'],
  },
  {
    what: 'a second colon',
    sections: { log: 'log:\n  level: info: debug' },
    says: ['gateway.yaml:7:10: holds a second key; put the value in quotes, or begin the next line in the same column'],
  },
  {
    what: 'a line under another column',
    sections: { drain: 'drain:\n  delayMs: 1\n   timeoutMs: 2' },
    says: ['gateway.yaml:7:12: holds a second key; put the value in quotes, or begin the next line in the same column'],
  },
  {
    what: 'a text that begins with a mark of YAML',
    sections: { log: 'log: { level: %info }' },
    says: ['gateway.yaml:6:15: begins with a character that YAML keeps for itself; put the text in quotes'],
  },
  {
    what: 'a comma that is missing',
    sections: { log: 'log: { level: info format: json }' },
    says: ['gateway.yaml:6:15: a comma is missing before this; add it'],
  },
  {
    what: 'a text behind a quoted one',
    sections: { log: 'log: { level: "info" format: json }' },
    says: ['gateway.yaml:6:22: stands behind a text that has ended; add a comma, or put both in one pair of quotes'],
  },
  {
    what: 'a brace too many',
    sections: { log: 'log: { level: info }}' },
    says: ['gateway.yaml:6:21: closes what is not open; remove it'],
  },
  {
    what: 'a list entry under another column',
    sections: { trustedProxies: 'trustedProxies:\n  - 10.0.0.1\n - 10.0.0.2' },
    says: ['gateway.yaml:8:1: is indented otherwise than the lines beside it; begin them in one column'],
  },
  {
    what: 'an escape of a path of Windows',
    sections: { policies: 'policies: { directory: "C:\\d" }' },
    says: [
      'gateway.yaml:5:27: has an escape that YAML does not know; write \\\\ for a backslash, or take single quotes',
    ],
  },
  {
    what: 'an empty file',
    sections: Object.fromEntries(Object.keys(sections).map((name) => [name, ''])),
    says: ['database', 'issuers', 'identity', 'upstreams'].map(
      (name) => `gateway.yaml: the file lacks "${name}"; add it`,
    ),
  },
  {
    what: 'a file of one word',
    sections: { ...Object.fromEntries(Object.keys(sections).map((name) => [name, ''])), word: 'sallyport' },
    says: ['gateway.yaml: must be a section of keys and values'],
  },
  {
    what: 'an alias',
    sections: { drain: 'drain: &d { delayMs: 1 }\ncluster: *d' },
    says: ['gateway.yaml:7:10: aliases (*d) are not allowed; write the value out'],
  },
  {
    what: 'a second document',
    sections: { drain: '---\ndrain: {}' },
    says: ['gateway.yaml:6:1: begins a second document; keep one, without the line "---"'],
  },
  {
    what: 'a variable that is not set',
    sections: { database: `database: { url: "${variable('DATABASE_URL')}" }` },
    says: [
      `gateway.yaml:1:18: environment variable DATABASE_URL is not set. Set it, or give a default: ${variable('DATABASE_URL:-value')}`,
    ],
  },
  {
    what: 'a malformed variable',
    sections: { database: `database: { url: "${variable('DATABASE-URL')}" }` },
    says: [`gateway.yaml:1:18: has a malformed variable; write ${variable('NAME')} or ${variable('NAME:-default')}`],
  },
  {
    what: 'a section that is missing',
    sections: { upstreams: '' },
    says: ['gateway.yaml:5:1: the file lacks "upstreams"; add it'],
  },
  {
    what: 'a section under a near name',
    sections: { issuers: 'isuers: [{ issuer: "https://login.example", audience: api }]' },
    says: ['gateway.yaml:2:1: the file does not know "isuers"; did you mean "issuers"?'],
  },
  {
    what: 'a key that is not known',
    sections: { limits: 'limits: { frobnicate: 1 }' },
    says: [
      'gateway.yaml:6:11: limits does not know "frobnicate"; use one of headerBytes, targetBytes, bodyBytes, minBodyBytesPerSecond, minResponseBytesPerSecond, waitingPerOrganization, heldBytes',
    ],
  },
  {
    what: 'a key under a near name',
    sections: { upstreams: 'upstreams: { platform: { url: "http://platform:3333", credential: forward } }' },
    says: ['gateway.yaml:4:55: upstreams.platform does not know "credential"; did you mean "credentials"?'],
  },
  {
    what: 'a key in another spelling',
    sections: { cache: 'cache: { max_entries: 5 }' },
    says: ['gateway.yaml:6:10: cache does not know "max_entries"; did you mean "maxEntries"?'],
  },
  {
    what: 'a key that has another name now',
    sections: { redis: 'redis: { hearsEveryWriter: true }' },
    says: ['gateway.yaml:6:10: redis does not know "hearsEveryWriter"; it is called "allWritersPublish" now'],
  },
  {
    what: 'a text for a number',
    sections: { workers: 'workers: many' },
    says: ['gateway.yaml:6:10: workers must be a whole number from 1 to 256, or auto'],
  },
  {
    what: 'a duration with a unit',
    sections: { timeouts: 'timeouts: { connectMs: 2s }' },
    says: ['gateway.yaml:6:24: timeouts.connectMs must be a whole number of milliseconds without a unit, such as 5000'],
  },
  {
    what: 'a duration below zero',
    sections: { drain: 'drain: { delayMs: -1 }' },
    says: ['gateway.yaml:6:19: drain.delayMs must be at least 0'],
  },
  {
    what: 'a port out of range',
    sections: { listeners: 'listeners: { public: { port: 80800 } }' },
    says: ['gateway.yaml:6:30: listeners.public.port must be at most 65535'],
  },
  {
    what: 'a list for a section',
    sections: { cache: 'cache: [5]' },
    says: ['gateway.yaml:6:8: cache must be a section of keys and values'],
  },
  {
    what: 'a word under a near name',
    sections: { log: 'log: { level: warning }' },
    says: ['gateway.yaml:6:15: log.level must be one of debug, info, warn, error, silent; did you mean "warn"?'],
  },
  {
    what: 'a database of another kind',
    sections: { database: 'database: { url: "mysql://user@db/name" }' },
    says: [
      'gateway.yaml:1:18: database.url must begin with postgres://, such as postgres://USER:PASSWORD@HOST:5432/DATABASE',
    ],
  },
  {
    what: 'a password with a mark of its own in the database URL',
    sections: { database: 'database: { url: "postgres://user:a#b@db/name" }' },
    says: [
      'gateway.yaml:1:18: database.url cannot be read as a URL; in user and password write %40 for @, %3A for :, %2F for /, %23 for # and %25 for %',
    ],
  },
  {
    what: 'a Redis address without its scheme',
    sections: { redis: 'redis: { url: "redis.internal:6379" }' },
    says: ['gateway.yaml:6:15: redis.url must begin with redis:// or rediss://, such as redis://HOST:6379'],
  },
  {
    what: 'sentinels and a cluster',
    sections: { redis: 'redis: { url: "redis://a", cluster: {}, sentinels: { name: main, nodes: ["a:26379"] } }' },
    says: ['gateway.yaml:6:52: redis has sentinels and cluster; keep one of them'],
  },
  {
    what: 'an issuer without its scheme',
    sections: { issuers: 'issuers: [{ issuer: login.example, audience: api }]' },
    says: ['gateway.yaml:2:21: issuers.0.issuer must be an address that begins with https://'],
  },
  {
    what: 'keys by http of an https issuer',
    sections: {
      issuers: 'issuers:\n  - { issuer: "https://login.example", audience: api, jwksUri: "http://login.example/keys" }',
    },
    says: ['gateway.yaml:3:64: issuers: jwksUri of https://login.example is not https. Give its https address.'],
  },
  ...(
    [
      ['issuer: "http://login.example", audience: api', 'issuer http://login.example'],
      ['issuer: "http://LOCALHOST.evil", audience: api', 'issuer http://LOCALHOST.evil'],
      ['issuer: "http://127.0.0.1.evil", audience: api', 'issuer http://127.0.0.1.evil'],
      ['issuer: "http://localhost", audience: api, jwksUri: "http://idp/k"', 'jwksUri http://idp/k'],
    ] as const
  ).map(([issuer, named]) => ({
    what: `http on another machine: ${issuer}`,
    sections: { issuers: `issuers:\n  - { ${issuer} }` },
    says: [
      `gateway.yaml:3:${named.startsWith('jwksUri') ? 59 : 15}: issuers: ${named} is http on another machine, where the network can replace its keys. Give an https address, or set insecure: true.`,
    ],
  })),
  {
    what: 'two listeners on one port',
    sections: { listeners: 'listeners: { public: { port: 9090, host: 127.0.0.1 }, admin: { port: 9090 } }' },
    says: [
      'gateway.yaml:6:70: listeners.admin.port: 9090 is the port of listeners.public on the same address; set another',
    ],
  },
  {
    what: 'a shadow folder that is not there',
    sections: { policies: 'policies: { directory: policies, shadow: nowhere }' },
    says: ['gateway.yaml:5:42: policies.shadow is not a folder; create nowhere, or remove the key'],
  },
  {
    what: 'an issuer listed twice',
    sections: {
      issuers:
        'issuers:\n  - { issuer: "https://login.example", audience: api }\n  - { issuer: "https://login.example", audience: other }',
    },
    says: ['gateway.yaml:4:15: issuers: https://login.example is listed twice. Keep one of the two.'],
  },
  {
    what: 'no audience',
    sections: { issuers: 'issuers: [{ issuer: "https://login.example" }]' },
    says: ['gateway.yaml:2:11: issuers.0 lacks "audience"; add it, such as audience: https://api.example'],
  },
  {
    what: 'an audience by a claim that names none',
    sections: { issuers: 'issuers: [{ issuer: "https://login.example", audience: { api: true } }]' },
    says: ['gateway.yaml:2:58: issuers.0.audience does not know "api"; use one of client_id, azp, scope'],
  },
  {
    what: 'an empty list of audiences',
    sections: { issuers: 'issuers: [{ issuer: "https://login.example", audience: [] }]' },
    says: ['gateway.yaml:2:56: issuers.0.audience must list at least one entry'],
  },
  {
    what: 'a key file that does not exist',
    sections: { identity: 'identity: { keys: ["file:keys.pem"] }' },
    says: [
      'gateway.yaml:3:20: file keys.pem cannot be read: ENOENT (it does not exist). "sallyport keys generate" writes one. A path after "file:" starts at the folder of this file.',
    ],
  },
  {
    what: 'a path of a key without its prefix',
    sections: { identity: 'identity: { keys: ["./key.pem"] }' },
    says: [
      'gateway.yaml:3:20: identity.keys: block 1 is not a private key in PEM (PKCS #8), and may be a path without "file:" before it. Run "sallyport keys generate" to make one.',
    ],
  },
  {
    what: 'a key file that holds no key',
    sections: { identity: 'identity: { keys: ["file:broken.pem"] }' },
    says: [
      'gateway.yaml:3:20: identity.keys: block 1 is not a private key in PEM (PKCS #8). Run "sallyport keys generate" to make one.',
    ],
  },
  {
    what: 'a key for another algorithm',
    sections: { identity: 'identity: { keys: ["file:key.pem", "file:other.pem"] }' },
    says: ['gateway.yaml:3:36: identity.keys: block 1 does not fit EdDSA. Run "sallyport keys generate" to make one.'],
  },
  {
    what: 'an upstream with a path that leads elsewhere',
    sections: { upstreams: 'upstreams: { platform: { url: "http://platform:3333/api/../admin" } }' },
    says: [
      'gateway.yaml:4:31: upstreams.platform.url must be scheme, host and port, and a path of plain names if any, such as http://platform.internal:3000/api',
    ],
  },
  {
    what: 'addresses of an upstream with different paths',
    sections: { upstreams: 'upstreams: { platform: { urls: ["http://platform:3333/a", "http://platform:3334/b"] } }' },
    says: ['gateway.yaml:4:32: upstreams.platform.urls differ in their path; give one to all'],
  },
  {
    what: 'an upstream without an address',
    sections: { upstreams: 'upstreams: { platform: { bind: true } }' },
    says: ['gateway.yaml:4:24: upstreams.platform lacks "url"; add it'],
  },
  {
    what: 'an upstream with url and urls',
    sections: { upstreams: 'upstreams: { platform: { url: "http://a", urls: ["http://b"] } }' },
    says: ['gateway.yaml:4:49: upstreams.platform has url and urls; keep one of them'],
  },
  {
    what: 'TLS of an http upstream',
    sections: { upstreams: 'upstreams: { platform: { url: "http://a", tls: { serverName: a } } }' },
    says: ['gateway.yaml:4:48: upstreams.platform.tls: needs https; correct the address, or leave tls out'],
  },
  {
    what: 'a header that passes anyhow',
    sections: { upstreams: 'upstreams: { platform: { url: "http://a", passHeaders: [accept] } }' },
    says: ['gateway.yaml:4:57: upstreams.platform.passHeaders: accept passes anyway; leave it out'],
  },
  {
    what: 'a cookie name with a space',
    sections: { cluster: 'cluster: { cookies: [theme, "a b"] }' },
    says: ['gateway.yaml:6:29: cluster.cookies.1 must be the name of a cookie, such as theme'],
  },
  {
    what: 'cookies of another type',
    sections: { cluster: 'cluster: { cookies: 5 }' },
    says: ['gateway.yaml:6:21: cluster.cookies must be forward or strip, or a list, such as ["theme"]'],
  },
  {
    what: 'a proxy that is not an address',
    sections: { trustedProxies: 'trustedProxies: [10.0.0.0/8, 10.0.0/8]' },
    says: ['gateway.yaml:6:30: trustedProxies: "10.0.0/8" is not an address or CIDR block, such as 10.0.0.0/8'],
  },
  {
    what: 'a network that is not a block',
    sections: { cluster: 'cluster: { networks: { deny: [10.0.0.0/33] } }' },
    says: [
      'gateway.yaml:6:31: cluster.networks.deny: "10.0.0.0/33" is not an address or CIDR block, such as 10.0.0.0/8',
    ],
  },
  {
    what: 'every origin with cookies',
    sections: { cors: 'cors: { origins: ["*"], credentials: true }' },
    says: ['gateway.yaml:6:19: cors.origins.0 cannot be * beside credentials: true; list the origins'],
  },
  {
    what: 'an origin with a path',
    sections: { cors: 'cors: { origins: ["https://app.example/"] }' },
    says: [
      'gateway.yaml:6:19: cors.origins.0 must be an origin in lower case without a path, such as https://app.example, or *',
    ],
  },
  {
    what: 'a certificate without its key',
    sections: { listeners: 'listeners: { public: { tls: { cert: "file:key.pem" } } }' },
    says: ['gateway.yaml:6:29: listeners.public.tls lacks "key"; add it, such as key: file:/run/secrets/sallyport.key'],
  },
  {
    what: 'a slip in the name of an audit sink',
    sections: { audit: 'audit: { sink: stdot }' },
    says: ['gateway.yaml:6:16: audit.sink must be stdout, stderr, off, or a path with a slash, such as ./audit.jsonl'],
  },
  {
    what: 'a folder of policies that does not exist',
    sections: { policies: 'policies: { directory: policy }' },
    says: [
      'policy: cannot be read: ENOENT (it does not exist); name the folder of policies in policies.directory, or by --policies',
    ],
  },
  {
    what: 'a folder of policies without one',
    policies: { 'limits.yaml': '', 'roles.yaml': '', 'routes.yaml': '' },
    says: ['policies: holds no policy: expected at least one *.yaml file'],
  },
  {
    what: 'a policy file with another ending',
    policies: { 'more.yml': routes },
    says: ['policies/more.yml: is not read with this ending; name it more.yaml'],
  },
  {
    what: 'a policy without roles',
    policies: { 'roles.yaml': '' },
    says: ['policies: no policy file lists organizationRoles; write them as roles.yaml of the package does'],
  },
  {
    what: 'roles in another order',
    policies: { 'roles.yaml': roles.replace('slug: org-admin', 'slug: org-boss') },
    says: [
      'policies/roles.yaml:2:3: must list org-client, org-member, org-admin, org-owner in this order, or say in "meanings" which roles write, manage and own',
    ],
  },
  {
    what: 'an unknown section of a policy',
    policies: { 'routes.yaml': '# Our routes.\nroute:\n  - { id: a }\n' },
    says: ['policies/routes.yaml:2:1: the file does not know "route"; did you mean "routes"?'],
  },
  {
    what: 'a role that is not listed',
    route: 'match: { path: /a }, upstream: platform, require: { role: org-king }',
    says: [
      'policies/routes.yaml:3:94: route "more": role "org-king" is not listed; use one of org-client, org-member, org-admin, org-owner',
    ],
  },
  {
    what: 'a role under a near name',
    route: 'match: { path: /a }, upstream: platform, require: { role: org-amdin }',
    says: ['policies/routes.yaml:3:94: route "more": role "org-amdin" is not listed; did you mean "org-admin"?'],
  },
  {
    what: 'an ability that no role grants',
    route: 'match: { path: /a }, upstream: platform, require: { ability: dataset:read }',
    says: ['policies/routes.yaml:3:97: route "more": no role grants "dataset:read"; did you mean "datasets:read"?'],
  },
  {
    what: 'an ability that is no name',
    route: 'match: { path: /a }, upstream: platform, require: { ability: "datasets read" }',
    says: [
      'policies/routes.yaml:3:97: routes.1.require.ability must be a name of letters, digits and . _ : / - such as datasets:read',
    ],
  },
  {
    what: 'an upstream under a near name',
    route: 'match: { path: /a }, upstream: plattform',
    says: ['policies/routes.yaml:3:67: route "more": upstream "plattform" is not configured; did you mean "platform"?'],
  },
  {
    what: 'a rate limit under a near name',
    route: 'match: { path: /a }, upstream: platform, rateLimit: clam',
    says: ['policies/routes.yaml:3:88: route "more": rate limit "clam" is not listed; did you mean "calm"?'],
  },
  {
    what: 'a method in lower case',
    route: 'match: { path: /a, methods: [get] }, upstream: platform',
    says: [
      'policies/routes.yaml:3:65: routes.1.match.methods.0 must be one of GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS; did you mean "GET"?',
    ],
  },
  {
    what: 'an unknown surface',
    policies: { 'routes.yaml': routes.replace('surface: platform', 'surface: html') },
    says: ['policies/routes.yaml:2:30: routes.0.surface must be one of platform, data, model, files, graphql'],
  },
  {
    what: 'a surface under a near name',
    route: 'match: { path: /a }, upstream: platform, surfaces: html',
    says: ['policies/routes.yaml:3:77: routes.1 does not know "surfaces"; did you mean "surface"?'],
  },
  {
    what: 'a path without its slash',
    route: 'match: { path: a/b }, upstream: platform',
    says: ['policies/routes.yaml:3:51: routes.1.match.path must begin with /, such as /datasets/:id'],
  },
  {
    what: 'a parameter as OpenAPI writes it',
    route: 'match: { path: "/a/{id}" }, upstream: platform',
    says: [
      'policies/routes.yaml:3:51: route "more": a parameter is written :name; for literal braces write %7B and %7D',
    ],
  },
  {
    what: 'a path with a dot segment',
    route: 'match: { path: /a/../b }, upstream: platform',
    says: ['policies/routes.yaml:3:51: route "more": a path has no dot segment; write it without'],
  },
  {
    what: 'a star within a path',
    route: 'match: { path: "/a/*/b" }, upstream: platform',
    says: [
      'policies/routes.yaml:3:51: route "more": * is only allowed as the last segment; for one segment write :name',
    ],
  },
  {
    what: 'a route without a match',
    route: 'upstream: platform',
    says: ['policies/routes.yaml:3:5: routes.1 lacks "match"; add it'],
  },
  {
    what: 'a route without a destination',
    route: 'match: { path: /a }',
    says: ['policies/routes.yaml:3:5: route "more": must have exactly one of upstream, cluster and answer'],
  },
  {
    what: 'a requirement of nothing',
    route: 'match: { path: /a }, upstream: platform, require: {}',
    says: ['policies/routes.yaml:3:86: routes.1.require must have at least one of role, ability'],
  },
  {
    what: 'a parameter that is not in the path',
    route: 'match: { path: "/a/:orgId" }, upstream: platform, organization: { param: orgid }',
    says: ['policies/routes.yaml:3:109: route "more": parameter "orgid" is not in the path; did you mean "orgId"?'],
  },
  {
    what: 'a public route with a requirement',
    route: 'match: { path: /a }, upstream: platform, access: public, require: { role: org-member }',
    says: ['policies/routes.yaml:3:102: route "more": a public route has no caller, so it cannot have "require"'],
  },
  {
    what: 'a route id that is taken',
    policies: {
      'routes.yaml': `${routes}  - { id: datasets, surface: platform, match: { path: /b }, upstream: platform }\n`,
    },
    says: ['policies/routes.yaml:3:11: route "datasets": the id is taken by "datasets" (policies/routes.yaml:2)'],
  },
  {
    what: 'a directory rule without directory.kind claims',
    sections: { issuers: claimsIssuer("{ claim: /groups, matches: '/{organization}/{role}' }") },
    says: [
      'gateway.yaml:2:77: issuers: directoryRules of https://login.example count only where directory.kind is claims or both. Set it, or remove them.',
    ],
  },
  {
    what: 'an issuer without directory rules',
    sections: { ...claimsSections, issuers: 'issuers: [{ issuer: "https://login.example", audience: api }]' },
    says: [
      'gateway.yaml:1:11: issuers: directoryRules of https://login.example are missing, so its users would have no rights. Add a rule.',
    ],
  },
  {
    what: 'both sources without a directory rule',
    sections: { directory: 'directory: { kind: both }' },
    says: [
      'gateway.yaml:6:20: directory.kind is both, and no issuer has directoryRules, so declared organizations would have no members. Add a rule.',
    ],
  },
  {
    what: 'a kind of account from claims beside a database',
    sections: {
      directory: 'directory: { kind: both }',
      issuers: claimsIssuer('{ claim: /azp, matches: importer, userType: client-managed }'),
    },
    says: [
      'gateway.yaml:2:122: issuers: directoryRules of https://login.example: userType is read from the database where directory.kind is both; remove the rule.',
    ],
  },
  {
    what: 'a database beside claims',
    sections: { directory: claimsSections.directory },
    says: ['gateway.yaml:1:11: database is not used where directory.kind is claims; remove the section'],
  },
  {
    what: 'a platform role from a captured value',
    sections: { ...claimsSections, issuers: claimsIssuer("{ claim: /roles, matches: '{role}', platformRole: admin }") },
    says: [
      'gateway.yaml:1:128: issuers: directoryRules of https://login.example: platformRole stands beside a literal matches alone; write the value out, and give memberships a rule of their own.',
    ],
  },
  {
    what: 'a rule for a role and an organization that no policy has',
    sections: {
      ...claimsSections,
      issuers: claimsIssuer('{ claim: /groups, matches: admins, organization: acme, role: org-amdin }'),
    },
    says: [
      'gateway.yaml:1:139: directoryRules of https://login.example: role "org-amdin" is in no policy; did you mean "org-admin"?',
      'gateway.yaml:1:127: directoryRules of https://login.example: organization "acme" is in no policy; use one of none',
    ],
  },
  {
    what: 'organizations that share an id, a slug and a value',
    policies: {
      'organizations.yaml': `organizations:
  - { id: 1, slug: acme, claims: [{ issuer: 'https://a.example', value: one }] }
  - { id: 1, slug: acme, claims: [{ issuer: 'https://a.example', value: one }] }
`,
    },
    says: [
      'policies/organizations.yaml:3:11: organization "acme": the id 1 is taken; give each organization its own',
      'policies/organizations.yaml:3:20: organization "acme": the slug is taken; give each organization its own',
      'policies/organizations.yaml:3:35: organization "acme": the value "one" of this issuer names "acme" too; keep it in one of them',
    ],
  },
  {
    what: 'a route that repeats another',
    route: 'match: { path: /datasets }, upstream: platform',
    says: [
      'policies/routes.yaml:3:43: route "more": matches the same requests as "datasets" (policies/routes.yaml:2); one of them would never be reached',
    ],
  },
]

/** The lines of `sallyport serve` about a mistake, before it opens anything; folders are left out. */
async function say(t: Test, { sections: changed = {}, policies = {}, route }: Mistake): Promise<readonly string[]> {
  const directory = t.testdir({ 'key.pem': identityKey, 'other.pem': otherKey, 'broken.pem': 'no key\n' })
  const file = join(directory, 'gateway.yaml')
  writeFileSync(
    file,
    `${Object.values({ ...sections, ...changed })
      .filter(Boolean)
      .join('\n')}\n`,
  )
  mkdirSync(join(directory, 'policies'))
  const more = route === undefined ? '' : `  - { id: more, surface: platform, ${route} }\n`
  const all = { 'limits.yaml': limits, 'roles.yaml': roles, 'routes.yaml': `${routes}${more}`, ...policies }
  for (const [name, text] of Object.entries(all))
    if (text !== '') writeFileSync(join(directory, 'policies', name), text)
  try {
    await checkConfiguration(loadConfiguration(file, {}))
    return []
  } catch (error) {
    return describeFailure(error).message.replaceAll(`${directory}/`, '').split('\n')
  }
}

t.test('the sections without a mistake are sound', async (t) => t.same(await say(t, { what: '', says: [] }), []))

for (const mistake of mistakes)
  t.test(`${mistake.what}: the place, what is wrong, and what to write`, async (t) => {
    t.strictSame(await say(t, mistake), mistake.says)
  })

t.test(
  'each of forty mistakes has a place that is not the first of the file, once, and no regular expression',
  async (t) => {
    t.ok(mistakes.length >= 40)
    for (const { what, says } of mistakes) {
      t.ok(says.length > 0, what)
      t.equal(new Set(says).size, says.length, what)
      for (const line of says) {
        t.match(line, /^(?:[\w./-]+:\d+:\d+|[\w./-]+): /, what)
        t.notMatch(line, /:1:1: |must match|\^|\(\?|\]\+/, what)
      }
    }
  },
)

t.test('an error of the database names its key, also from a command that asks it directly', async (t) => {
  const refused = Object.assign(new Error('password authentication failed for user "x"'), { code: '28P01' })
  t.equal(describeFailure(refused).message, 'database.url: the server refused the password; mend it (28P01)')
})
