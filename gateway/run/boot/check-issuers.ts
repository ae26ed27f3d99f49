import { isClearFarAway } from '../../base/lib/loopback.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readCertificates } from '../../http/tls/certificates.ts'
import type { Log } from '../../observe/log/log.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import { findRuleFaults } from '../../stages/authenticate/directory-rules.ts'
import { isAsSecure } from '../../stages/authenticate/jwks/fetch.ts'
import { parsePointer } from '../../stages/authenticate/pointer.ts'
import { mayCarryCredential } from '../../stages/receive/header-role.ts'
import { findTransmitterFaults } from './transmitters.ts'

type Checked = Pick<Configuration, 'issuers' | 'transmitters' | 'directory' | 'listeners' | 'problemAt'>

export function checkIssuers(configuration: Checked): void {
  const { issuers, problemAt } = configuration
  const names = issuers.map(({ issuer }) => issuer)
  const problems = issuers.flatMap(({ issuer, jwksUri, claims, tls }, index) => [
    ...findAuthorityFault(issuer, tls?.ca.text).map((fault) => problemAt(['issuers', index, 'tls', 'ca'], fault)),
    ...(isReassigned(claims.subject) || [claims.email, claims.username].includes(claims.subject)
      ? [
          problemAt(
            ['issuers', index, 'claims', 'subject'],
            `issuers: claims.subject of ${issuer} is an e-mail address or name, which passes from person to person. Name a claim that stays with one, such as /sub.`,
          ),
        ]
      : []),
    ...(names.indexOf(issuer) === index
      ? []
      : [problemAt(['issuers', index, 'issuer'], `issuers: ${issuer} is listed twice. Keep one of the two.`)]),
    ...(jwksUri === undefined || isAsSecure(jwksUri, issuer)
      ? []
      : [
          problemAt(
            ['issuers', index, 'jwksUri'],
            `issuers: jwksUri of ${issuer} is not https. Give its https address.`,
          ),
        ]),
  ])
  problems.push(
    ...checkTokenHeaders(configuration),
    ...checkDirectoryRules(configuration),
    ...requireSomeRule(configuration),
    ...checkLogouts(configuration),
    ...findTransmitterFaults(configuration).map(([path, fault]) => problemAt(path, fault)),
    ...configuration.transmitters.flatMap(({ issuer, jwksUri, name, tls }, index) => [
      ...findAuthorityFault(issuer, tls?.ca.text).map((fault) =>
        problemAt(['transmitters', index, 'tls', 'ca'], fault),
      ),
      ...(jwksUri === undefined || isAsSecure(jwksUri, issuer)
        ? []
        : [problemAt(['transmitters', index, 'jwksUri'], `transmitters: jwksUri of ${name} is not https.`)]),
    ]),
    ...checkIntrospection(configuration),
    ...requireTls(configuration),
  )
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function warnOfUnboundCookies({ issuers }: Pick<Configuration, 'issuers'>, log: Pick<Log, 'warn'>): void {
  for (const { issuer, tokens } of issuers)
    if (tokens.cookie?.startsWith('__Host-') === false)
      log.warn({ issuer, cookie: tokens.cookie }, 'cookie of tokens not bound to its host')
}

/** Cookies counted once for pages of `cors.origins`, which an operator gives to pages that only read. */
export const findUnlistedOrigins = ({ issuers, cors }: Pick<Configuration, 'issuers' | 'cors'>): readonly string[] => {
  const named = (cors?.origins ?? []).filter((origin) => origin !== '*')
  return issuers.flatMap(({ issuer, tokens: { cookie, headers, origins } }) => {
    const keys = [
      ...(cookie === undefined ? [] : ['tokens.cookie']),
      ...(headers === undefined ? [] : ['tokens.headers']),
    ]
    if (origins !== undefined || named.length === 0) return []
    return keys.map(
      (key) =>
        `issuers: ${key} of ${issuer} does not count for pages of cors.origins (${named.join(', ')}). Name those that may act as the user in tokens.origins.`,
    )
  })
}

function checkTokenHeaders({ issuers, problemAt }: Checked) {
  return issuers.flatMap(({ issuer, tokens: { headers = [] } }, index) =>
    headers.flatMap((name, at) =>
      mayCarryCredential(name)
        ? []
        : [
            problemAt(
              ['issuers', index, 'tokens', 'headers', at],
              `issuers: tokens.headers of ${issuer} names ${name}, which has a role of its own. Name a header that a proxy in front sets for the token alone, such as cf-access-jwt-assertion.`,
            ),
          ],
    ),
  )
}

function checkIntrospection({ issuers, problemAt }: Checked) {
  const asked = issuers.flatMap(({ issuer, introspection }, index) =>
    introspection ? [{ issuer, endpoint: introspection.endpoint, index }] : [],
  )
  return asked.flatMap(({ issuer, endpoint, index }, at) => [
    ...(at === 0
      ? []
      : [
          problemAt(
            ['issuers', index, 'introspection'],
            `issuers: introspection of ${issuer} is the second one. An opaque token names no issuer; keep one.`,
          ),
        ]),
    ...(endpoint === undefined || isPlainEndpoint(endpoint, issuer)
      ? []
      : [
          problemAt(
            ['issuers', index, 'introspection', 'endpoint'],
            `issuers: introspection.endpoint of ${issuer} is not https, or holds a user. Give its https address alone.`,
          ),
        ]),
  ])
}

function requireTls({ issuers, problemAt }: Checked) {
  return issuers.flatMap(({ issuer, jwksUri, introspection, insecure }, index) => {
    const at = (...path: readonly string[]) => ['issuers', index, ...path]
    // Discovery is asked at the issuer for what the configuration does not name.
    const isDiscovered = jwksUri === undefined || (introspection && introspection.endpoint === undefined)
    const asked = [
      ...(isDiscovered ? [{ path: at('issuer'), key: 'issuer', address: issuer }] : []),
      ...(jwksUri === undefined ? [] : [{ path: at('jwksUri'), key: 'jwksUri', address: jwksUri }]),
      ...(introspection?.endpoint === undefined
        ? []
        : [{ path: at('introspection', 'endpoint'), key: 'introspection.endpoint', address: introspection.endpoint }]),
    ]
    // An https issuer with an http address has its own message, and no key that allows it.
    return asked
      .filter(({ address }) => !insecure && isAsSecure(address, issuer) && isClearFarAway(address))
      .map(({ path, key, address }) =>
        problemAt(
          path,
          `issuers: ${key} ${address} is http on another machine, where the network can replace its keys. Give an https address, or set insecure: true.`,
        ),
      )
  })
}

const isPlainEndpoint = (endpoint: string, issuer: string): boolean =>
  URL.canParse(endpoint) &&
  isAsSecure(endpoint, issuer) &&
  new URL(endpoint).username + new URL(endpoint).password === ''

function checkLogouts({ issuers, transmitters, directory: { kind }, listeners: { signals }, problemAt }: Checked) {
  const told = issuers.flatMap(({ issuer, logout }, index) => (logout ? [{ issuer, index }] : []))
  if (kind === 'claims')
    return told.map(({ issuer, index }) =>
      problemAt(
        ['issuers', index, 'logout'],
        `issuers: logout of ${issuer} needs a database, which keeps logouts. Remove it, or set directory.kind to postgres.`,
      ),
    )
  if (!signals)
    return told
      .filter(({ index }) => issuers[index]?.logout?.heardElsewhere !== true)
      .map(({ issuer, index }) =>
        problemAt(
          ['issuers', index, 'logout'],
          `issuers: logout of ${issuer} needs listeners.signals, where logouts come. Set it, or logout.heardElsewhere where other replicas take them.`,
        ),
      )
  if (told.length > 0 || transmitters.some(({ push }) => push)) return []
  const fault =
    'no issuer has logout and no transmitter pushes, so all that comes here would be refused. Set it, or remove the listener.'
  return [problemAt(['listeners', 'signals'], `listeners.signals: ${fault}`)]
}

function checkDirectoryRules({
  issuers,
  directory: { kind },
  problemAt,
}: Checked): readonly ReturnType<typeof problemAt>[] {
  return issuers.flatMap(({ issuer, directoryRules = [] }, index) => {
    const path = ['issuers', index, 'directoryRules']
    const named = `issuers: directoryRules of ${issuer}`
    if (kind === 'postgres')
      return directoryRules.length === 0
        ? []
        : [problemAt(path, `${named} count only where directory.kind is claims or both. Set it, or remove them.`)]
    if (kind === 'claims' && directoryRules.length === 0)
      return [problemAt(['issuers', index], `${named} are missing, so its users would have no rights. Add a rule.`)]
    return directoryRules.flatMap((rule, at) => [
      ...findRuleFaults(rule).map(([key, fault]) => problemAt([...path, at, key], `${named}: ${key} ${fault}.`)),
      ...(['platformRole', 'userType'] as const)
        .filter((key) => kind === 'both' && rule[key] !== undefined)
        .map((key) => problemAt([...path, at, key], `${named}: ${key} ${ofDatabase}.`)),
    ])
  })
}

function requireSomeRule({ issuers, directory: { kind }, problemAt }: Checked) {
  if (kind !== 'both' || issuers.some(({ directoryRules = [] }) => directoryRules.length > 0)) return []
  const fault = 'no issuer has directoryRules, so declared organizations would have no members. Add a rule.'
  return [problemAt(['directory', 'kind'], `directory.kind is both, and ${fault}`)]
}

const ofDatabase = 'is read from the database where directory.kind is both; remove the rule'

function findAuthorityFault(issuer: string, ca: string | undefined): readonly string[] {
  try {
    if (ca !== undefined) readCertificates(`issuers: tls.ca of ${issuer}`, ca)
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

const reassignedClaims = new Set([
  ...['email', 'emailaddress', 'mail', 'emails', 'phone', 'phonenumber', 'upn', 'userprincipalname'],
  ...['username', 'cognitousername', 'preferredusername', 'uniquename', 'login', 'loginname', 'nickname', 'name'],
  ...['displayname', 'givenname', 'familyname', 'samaccountname', 'onpremisessamaccountname'],
])

const isReassigned = (pointer: string): boolean => {
  const names = parsePointer(pointer).map((name) => name.toLowerCase().replace(/[^a-z]/g, ''))
  return names.some((name) => reassignedClaims.has(name) || /(?:emailaddress|claimsname|claimsupn)$/.test(name))
}
