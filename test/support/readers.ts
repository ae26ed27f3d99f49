import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { parseShallow, parseUnambiguous } from '../../gateway/base/lib/parse-shallow.ts'
import { readNetwork } from '../../gateway/base/network/network.ts'
import { parseChanges } from '../../gateway/directory/change.ts'
import { parseAbilities } from '../../gateway/directory/postgres/rows.ts'
import type { UpstreamRequest } from '../../gateway/http/engine.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import { readLineName } from '../../gateway/http/header-line.ts'
import { MessageParser } from '../../gateway/http/parser/message-parser.ts'
import { refusalOf } from '../../gateway/http/parser/parse-error.ts'
import { readFraming } from '../../gateway/http/server/request-framing.ts'
import { composeResponseHead } from '../../gateway/http/server/response-head.ts'
import { readConnection } from '../../gateway/http/server/silent-peers.ts'
import { readAlternativeNames } from '../../gateway/http/tls/certificates.ts'
import { embeddedAddresses } from '../../gateway/http/upstream/embedded-address.ts'
import { readIdleMs } from '../../gateway/http/upstream/request-cycle.ts'
import { composeRequestHead } from '../../gateway/http/upstream/request-head.ts'
import { isCloseNotice } from '../../gateway/http/upstream/surplus.ts'
import { isHandshake } from '../../gateway/http/websocket.ts'
import { createPageTokens } from '../../gateway/listeners/decision/authzen/page-tokens.ts'
import { readQuestion, readQuestionBatch, readSearch } from '../../gateway/listeners/decision/authzen/questions.ts'
import {
  asksForNginxStatuses,
  readEntry,
  readOriginalRequest,
} from '../../gateway/listeners/decision/original-request.ts'
import { readPollAnswer } from '../../gateway/listeners/signals/poll-question.ts'
import { readEventRequest, readLogoutRequest, requireSecret } from '../../gateway/listeners/signals/requests.ts'
import { createStates } from '../../gateway/listeners/signals/verification.ts'
import { composeAuditLine } from '../../gateway/observe/audit/line.ts'
import { redact } from '../../gateway/observe/log/redact.ts'
import { isSameValue } from '../../gateway/policy/deciding-values.ts'
import { parseYaml } from '../../gateway/policy/document.ts'
import { domainOf, firstLabel, isLabel } from '../../gateway/policy/host.ts'
import { mayBeTakenFor } from '../../gateway/policy/organizations.ts'
import { rewritePath } from '../../gateway/policy/path-rewrite.ts'
import { isResourceId } from '../../gateway/policy/resource-kind.ts'
import { type PathRewrite, parsePattern } from '../../gateway/policy/route.ts'
import { foldName } from '../../gateway/policy/upstream-paths.ts'
import { parseApiToken } from '../../gateway/stages/authenticate/api-token.ts'
import { isSameAddress, readClaims } from '../../gateway/stages/authenticate/claims.ts'
import { readCredential, readHeaderCredential } from '../../gateway/stages/authenticate/credential.ts'
import { compileDirectoryRules } from '../../gateway/stages/authenticate/directory-rules.ts'
import { readEventSubject } from '../../gateway/stages/authenticate/event-subject.ts'
import { readIssuedAt, readOnlyEvent } from '../../gateway/stages/authenticate/event-token.ts'
import { readAnswer } from '../../gateway/stages/authenticate/introspection/question.ts'
import { usableKeys } from '../../gateway/stages/authenticate/jwks/usable-keys.ts'
import { chooseKey, parseObject, parseToken } from '../../gateway/stages/authenticate/signature.ts'
import { isOpaque } from '../../gateway/stages/authenticate/verify.ts'
import { readDecisions, readFreshMs } from '../../gateway/stages/consult/answer.ts'
import { readMetadata } from '../../gateway/stages/consult/discovery.ts'
import { createCors } from '../../gateway/stages/endpoints/cors.ts'
import { readJsonObject } from '../../gateway/stages/endpoints/read-body.ts'
import { readTokenRequest } from '../../gateway/stages/endpoints/read-token-request.ts'
import { readPage } from '../../gateway/stages/endpoints/tokens.ts'
import { keepCookies, mayKeepSetCookie } from '../../gateway/stages/locate/cookies.ts'
import { readKeyBundle } from '../../gateway/stages/pin/key-bundle.ts'
import { noCarriedCredentials, takeCredentials } from '../../gateway/stages/receive/carried-credentials.ts'
import { readClient } from '../../gateway/stages/receive/client.ts'
import { headerRole } from '../../gateway/stages/receive/header-role.ts'
import { isHost, readHeaders } from '../../gateway/stages/receive/headers.ts'
import { readRequestId } from '../../gateway/stages/receive/request-id.ts'
import { readTarget } from '../../gateway/stages/receive/target.ts'
import { readExchangeQuery } from '../../gateway/stages/recheck/list-exchanges.ts'
import { type AnswerContext, passingLines, readMediaType } from '../../gateway/stages/relay/answer-headers.ts'
import { ChatChoices } from '../../gateway/stages/relay/chat-choices.ts'
import { readFields } from '../../gateway/stages/relay/read-fields.ts'
import { scanMembers } from '../../gateway/stages/relay/scan-json.ts'
import { composeCacheControl } from '../../gateway/stages/relay/shared-caches.ts'
import { EventSplitter } from '../../gateway/stages/relay/split-events.ts'
import { StreamState } from '../../gateway/stages/relay/stream-state.ts'
import { mayTellError, readToldError } from '../../gateway/stages/relay/told-error.ts'
import { isWholeObject } from '../../gateway/stages/relay/whole-json.ts'
import { readOrganizationCookie, readOrganizationId } from '../../gateway/stages/resolve/organization-id.ts'
import { readResourceIds } from '../../gateway/stages/resolve/resource-ids.ts'
import { otherReadings } from '../../gateway/stages/route/readings.ts'
import { parseCsv } from '../../gateway/tools/provision/csv.ts'

/** A reader of bytes that others wrote. */
export type Reader = Readonly<{
  name: string
  /** The modules whose work it is, below `gateway/`. */
  modules: readonly string[]
  /** The largest text that it can be given, in bytes; for what has no limit of its own, as much as its sender may send. */
  largest: number
  /** Readers of files are linear, but nothing waits for them. */
  isOfFiles?: true
  read: (text: string) => unknown
}>

const head = 64 * 1024
const targetBytes = 8 * 1024
const tokenBytes = 24 * 1024
const metadataUrl = 'https://pdp.example'
const mebibyte = 1024 * 1024

const issuer = {
  issuer: 'i',
  audiences: ['us'],
  carriers: new Set(['header'] as const),
  clockToleranceSeconds: 0,
  linkVerifiedEmail: false,
  trustEmailVerified: false,
}
const rewrite: PathRewrite = {
  path: '/:a/*',
  parts: [
    { kind: 'segment', index: 0 },
    { kind: 'rest', from: 1 },
  ],
  strippedPrefix: undefined,
}
const cors = createCors({ origins: ['https://app.example'], maxAgeSeconds: 1, credentials: false })
const preflightOf = (names: string): Exchange => {
  const asked = ['access-control-request-method', 'PUT', 'access-control-request-headers', names]
  return { method: 'OPTIONS', headers: ['origin', 'https://app.example', ...asked] } as unknown as Exchange // no more is read
}
const { privateKey } = generateKeyPairSync('ed25519')
const pageTokens = createPageTokens({ privateKey: () => privateKey, drawBytes: randomBytes })
const states = createStates('secret', 'transmitter')
const limited = (text: string, name: string): unknown =>
  readHeaders({ headers: ['host', 'h', name, text], httpVersion: '1.1' }, mebibyte)

const ambientRules = { carriers: new Set<never>(), places: undefined, mayRead: () => false, seesHandshakes: true }
const withAmbient = (text: string) => ({
  authorization: [text],
  oauthAccessToken: [],
  carried: { ...noCarriedCredentials, ambient: [{ name: 'cf-access-jwt-assertion', value: 'x' }] },
  passing: ['origin', text],
  forwarded: { for: [], proto: [], host: [] },
})

/** A head that the parser could not read, whatever it says is the reason. */
const unreadable = (text: string): void => {
  const rawPacket = Buffer.from(`${text}\r\n\r\n`, 'latin1')
  for (const code of ['HPE_INVALID_METHOD', 'HPE_INVALID_TRANSFER_ENCODING', 'HPE_HEADER_OVERFLOW'])
    refusalOf(Object.assign(new Error(code), { code, rawPacket, bytesParsed: rawPacket.length }))
}

/** Reads bytes as a connection does, in pieces of this size. */
function parseWire(type: 'request' | 'response', text: string, pieceBytes: number): void {
  // A head of the largest text and the words around it is within this limit, so it is read to its end.
  const parser = new MessageParser(type, 2 * head)
  const bytes = Buffer.from(text, 'latin1')
  let isValid = true
  for (let at = 0; at < bytes.length && isValid; at += pieceBytes) {
    let rest: Buffer = bytes.subarray(at, at + pieceBytes)
    while (rest.length > 0 && isValid) {
      rest = parser.mend(rest)
      isValid = parser.execute(rest) === undefined
      const found = parser.takeHead()
      if (found && type === 'request') readFraming(found)
      rest = rest.subarray(parser.consumedBytes)
      if (parser.isComplete) parser.next()
    }
  }
  parser.free()
}

const splitInPieces = (text: string, pieceBytes: number): void => {
  const splitter = new EventSplitter(mebibyte)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += pieceBytes) splitter.split(bytes.subarray(at, at + pieceBytes))
}

const answerContext: AnswerContext = {
  upstream: { cookies: new Set(['a']), answers: { passedCommands: new Set(), cache: 'private' } },
  match: { route: { isPublic: false } },
  requestId: 'r',
  observer: { onUpstreamRequestId: () => undefined },
}

const readGranted = compileDirectoryRules('https://a.example', [
  { claim: '/groups', matches: '{organization}a-a-{role}' },
  { claim: '/groups', matches: 'aaaa', platformRole: 'admin' },
])

const noOrganizations = { byId: new Map(), bySlug: new Map() }
const bounds = { now: new Date(0), latest: null }
const auditOf = (text: string): string =>
  composeAuditLine(
    {
      ...{ time: new Date(0), requestId: 'r', listener: 'public', outcome: 'refused', status: 400, error: undefined },
      ...{ principal: undefined, organization: undefined, route: undefined },
      ...{ method: text, path: text, clientAddress: text },
    },
    'r',
  )

const reader = (
  name: string,
  module: string | readonly string[],
  largest: number,
  read: (text: string) => unknown,
): Reader => ({ name, modules: typeof module === 'string' ? [module] : module, largest, read })

const ofFiles = (...parts: Parameters<typeof reader>): Reader => ({ ...reader(...parts), isOfFiles: true })

/** Every reader of bytes from a client, an upstream, an issuer, another process or an operator. */
export const readers: readonly Reader[] = [
  reader('bytes of a client', ['http/parser/message-parser.ts', 'http/parser/llhttp.ts'], head, (text) =>
    parseWire('request', text, mebibyte),
  ),
  reader('a request line', 'http/server/request-framing.ts', head, (text) =>
    parseWire('request', `GET /${text} HTTP/1.1\r\nHost: h\r\n\r\n`, 16 * 1024),
  ),
  reader('header lines', 'http/parser/message-parser.ts', head, (text) =>
    parseWire('request', `GET / HTTP/1.1\r\nHost: h\r\n${text}\r\n\r\n`, 1_024),
  ),
  reader('a header value', 'http/parser/message-parser.ts', head, (text) =>
    parseWire('request', `GET / HTTP/1.1\r\nHost: h\r\nX-A: a${text}a\r\n\r\n`, 16 * 1024),
  ),
  reader('chunks', 'http/parser/message-parser.ts', head, (text) =>
    parseWire('request', `POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n${text}`, 1_024),
  ),
  reader('an answer of an upstream', 'http/parser/message-parser.ts', head, (text) =>
    parseWire('response', `HTTP/1.1 200 OK\r\n${text}\r\n\r\n`, 16 * 1024),
  ),
  // Each byte is a read of the parser, so a short text takes as long as a long one elsewhere.
  reader('blanks in an answer’s head', 'http/parser/mend-head.ts', 4 * 1024, (text) =>
    parseWire('response', `HTTP/1.1 200 OK\r\nX: a${text}`, 1),
  ),
  reader('an answer’s chunks', 'http/parser/chunk-reader.ts', head, (text) =>
    parseWire('response', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${text}`, 1_024),
  ),
  reader('an answer’s trailer', 'http/parser/chunk-reader.ts', head, (text) =>
    parseWire('response', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: ${text}`, 1_024),
  ),
  reader('an upstream’s Keep-Alive', 'http/upstream/request-cycle.ts', head, (text) =>
    readIdleMs(['keep-alive', text]),
  ),
  reader('an answer’s head', 'http/server/response-head.ts', head, (text) =>
    composeResponseHead(
      { status: 200, reason: text, headers: [text, text] },
      { isHead: false, isHttp10: false, isKeptAlive: true, keepAliveSeconds: 95 },
    ),
  ),
  reader('bytes on an idle connection', 'http/upstream/surplus.ts', head, (text) =>
    isCloseNotice(Buffer.from(`HTTP/1.1 408${text}`)),
  ),
  reader('a request’s head', 'http/upstream/request-head.ts', head, (text) =>
    composeRequestHead(
      { method: 'GET', path: `/${text}`, headers: ['x', text], asksForWebSocket: false } as unknown as UpstreamRequest, // no more is read
      { authority: 'h', isForOne: false },
    ),
  ),
  reader('a line’s name', 'http/header-line.ts', head, readLineName),
  reader('a handshake', 'http/websocket.ts', head, (text) =>
    isHandshake({
      method: 'GET',
      httpVersion: '1.1',
      headers: { upgrade: 'websocket', 'sec-websocket-version': '13', 'sec-websocket-key': text },
      hasBody: false,
    }),
  ),
  reader('a head that is none', 'http/parser/parse-error.ts', head, unreadable),
  reader('an unreadable encoding', 'http/parser/parse-error.ts', head, (text) =>
    unreadable(`POST / HTTP/1.1\r\nTransfer-Encoding: a${text}`),
  ),
  reader('the log’s look at a path', 'observe/log/redact.ts', head / 4, redact),
  reader('the audit trail’s look at a request', 'observe/audit/line.ts', targetBytes, auditOf),
  reader('a request that a proxy tells of', 'listeners/decision/original-request.ts', head, (text) => {
    const headers = ['x-forwarded-method', text, 'x-forwarded-uri', text, 'x-forwarded-host', text]
    return readOriginalRequest({ method: 'GET', target: '/authorize', headers }, text)
  }),
  reader('a path of the decision listener', 'listeners/decision/original-request.ts', targetBytes, (text) =>
    readEntry(`/envoy-named/${text}`),
  ),
  reader('a query of the decision listener', 'listeners/decision/original-request.ts', head, (text) =>
    asksForNginxStatuses(`/authorize?${text}`),
  ),
  reader('a header’s name on the decision listener', 'listeners/decision/original-request.ts', head, (text) =>
    readOriginalRequest({ method: 'GET', target: '/authorize', headers: [text, 'x'] }, 'h'),
  ),
  reader('a target', ['stages/receive/target.ts', 'stages/receive/segment.ts'], targetBytes, (text) =>
    readTarget('GET', `/${text}`, 'h', mebibyte),
  ),
  reader('a target in absolute form', 'stages/receive/target.ts', targetBytes, (text) =>
    readTarget('GET', `http://${text}`, text, mebibyte),
  ),
  reader('a target’s other readings', ['stages/route/readings.ts', 'stages/route/table.ts'], targetBytes, (text) =>
    otherReadings(readTarget('GET', `/${text}`, 'h', mebibyte)),
  ),
  reader('a host', 'stages/receive/headers.ts', head, isHost),
  reader('the label of a host', 'policy/host.ts', head, (text) => [domainOf(text), isLabel(firstLabel(text))]),
  reader('a header’s name', 'stages/receive/header-role.ts', head, headerRole),
  ...['content-length', 'transfer-encoding', 'connection', 'expect', 'host', 'cookie'].map((name) =>
    reader(`the header ${name}`, 'stages/receive/headers.ts', head, (text) => limited(text, name)),
  ),
  reader('a trace', 'stages/receive/trace-context.ts', head, (text) => limited(text, 'traceparent')),
  reader('a request id', 'stages/receive/request-id.ts', head, (text) => readRequestId(['x-request-id', text])),
  reader('a chain of proxies', 'stages/receive/client.ts', head, (text) =>
    readClient(
      { peerAddress: '127.0.0.1', isEncrypted: false },
      { host: 'h', forwarded: { for: [text], proto: [text], host: [text] } },
      () => true,
    ),
  ),
  reader('an address of a limit', 'base/network/network.ts', head, readNetwork),
  reader('a line of a table of connections', 'http/server/silent-peers.ts', head, readConnection),
  reader('an address within another', 'http/upstream/embedded-address.ts', head, embeddedAddresses),
  reader('a line that may carry a credential', 'stages/receive/carried-credentials.ts', head, (text) =>
    takeCredentials(['cookie', text, 'sec-websocket-protocol', text, text, 'x'], {
      cookies: new Set(['__Host-access-token']),
      subprotocol: true,
      headers: new Set(['cf-access-jwt-assertion']),
    }),
  ),
  reader('a Bearer', 'stages/authenticate/credential.ts', head, (text) =>
    readHeaderCredential({ authorization: [`Bearer ${text}`], oauthAccessToken: [] }, new Set(['bearer'])),
  ),
  reader('a scheme', 'stages/authenticate/credential.ts', head, (text) =>
    readHeaderCredential({ authorization: [text], oauthAccessToken: [] }, new Set(['bearer'])),
  ),
  reader('a scheme beside a header of a proxy', 'stages/authenticate/credential.ts', head, (text) =>
    readCredential(withAmbient(text), ambientRules, { method: 'GET', isHandshake: false }),
  ),
  reader('an API token', 'stages/authenticate/api-token.ts', head, (text) => parseApiToken(`oat_${text}`)),
  reader('a JWT', 'stages/authenticate/signature.ts', tokenBytes, parseToken),
  reader('an opaque token', 'stages/authenticate/verify.ts', head, isOpaque),
  reader(
    'an answer about an opaque token',
    ['stages/authenticate/introspection/question.ts', 'base/lib/parse-shallow.ts'],
    head,
    (text) => readAnswer(Buffer.from(`{"active":true,${JSON.stringify(text)}:${text}}`), 'https://i.example'),
  ),
  reader(
    'an answer of a decision point',
    ['stages/consult/answer.ts', 'base/lib/parse-shallow.ts'],
    64 * 1024,
    (text) => {
      const body = Buffer.from(`{"decision":true,${JSON.stringify(text)}:${text}}`)
      return readDecisions({ status: 200, headers: { 'content-type': 'application/json' }, body }, 1)
    },
  ),
  reader(
    'metadata of a decision point',
    ['stages/consult/discovery.ts', 'base/lib/parse-shallow.ts'],
    64 * 1024,
    (text) => {
      const body = Buffer.from(`{"policy_decision_point":"${metadataUrl}",${JSON.stringify(text)}:${text}}`)
      return readMetadata({ status: 200, headers: { 'content-type': 'application/json' }, body }, metadataUrl)
    },
  ),
  reader('an address in such metadata', 'stages/consult/discovery.ts', 64 * 1024, (text) => {
    const named = { policy_decision_point: metadataUrl, access_evaluation_endpoint: `${metadataUrl}/${text}` }
    const body = Buffer.from(JSON.stringify(named))
    return readMetadata({ status: 200, headers: { 'content-type': 'application/json' }, body }, metadataUrl)
  }),
  reader('the type of such an answer', 'stages/consult/answer.ts', head, (text) =>
    readDecisions({ status: 200, headers: { 'content-type': text }, body: Buffer.from('{}') }, 1),
  ),
  reader('the freshness of such an answer', 'stages/consult/answer.ts', head, (text) =>
    readFreshMs({ 'cache-control': text, age: text }),
  ),
  reader('a JWT’s header', 'stages/authenticate/signature.ts', tokenBytes, (text) => {
    const encoded = Buffer.from(JSON.stringify({ alg: 'RS256', typ: text })).toString('base64url')
    // It is read before anything is waited for.
    chooseKey(encoded, () => Promise.reject(new TypeError('no key'))).catch(() => undefined)
  }),
  reader('a JWT’s payload', 'stages/authenticate/signature.ts', tokenBytes, (text) =>
    parseObject(Buffer.from(`{"a":${text}`)),
  ),
  reader('a form of a logout', 'listeners/signals/requests.ts', 16 * 1024, (text) => {
    readLogoutRequest({
      headers: ['content-type', text],
      body: { read: async () => Buffer.from(text) },
    } as unknown as Parameters<typeof readLogoutRequest>[0]).catch(() => undefined)
    return new URLSearchParams(text).getAll('logout_token')
  }),
  reader('a push of an event', 'listeners/signals/requests.ts', 16 * 1024, (text) => {
    readEventRequest({
      headers: ['content-type', text],
      body: { read: async () => Buffer.from(text) },
    } as unknown as Parameters<typeof readEventRequest>[0]).catch(() => undefined)
    requireSecret(new Map(), text, [`Bearer ${text}`])
  }),
  // It holds the text twice.
  reader('an answer to a poll', 'listeners/signals/poll-question.ts', mebibyte / 2, (text) =>
    readPollAnswer(Buffer.from(`{"sets":{${JSON.stringify(text)}:${text}}}`), 'https://i.example'),
  ),
  reader('a state of a verification', 'listeners/signals/verification.ts', tokenBytes, (text) => states.read(text)),
  reader(
    'an event',
    ['stages/authenticate/event-token.ts', 'stages/authenticate/event-subject.ts'],
    tokenBytes,
    (text) => {
      readOnlyEvent({ jti: 'j', events: { [text]: {} } })
      readIssuedAt({ iat: text.length }, 0, tokenBytes)
      const bounds = new Map([['i', { longestLifeSeconds: 1, toleranceSeconds: 0 }]])
      const rules = { bounds, ignoredMembers: new Set<string>(), mayBeSession: true }
      readEventSubject({ format: 'email', email: text }, rules)
    },
  ),
  reader('an e-mail address', 'stages/authenticate/claims.ts', tokenBytes, (text) =>
    readClaims({ iss: 'i', aud: 'us', sub: 's', exp: 1, email: text, given_name: text }, issuer),
  ),
  reader('a subject', 'stages/authenticate/claims.ts', tokenBytes, (text) =>
    readClaims({ iss: 'i', aud: text.split(','), sub: text, exp: 1 }, issuer),
  ),
  // A JWT of 24 KiB has 18 KiB of claims, and so at most 6,144 groups of three bytes each.
  reader('groups', ['stages/authenticate/directory-rules.ts', 'stages/authenticate/pointer.ts'], 8 * 1024, (text) =>
    readGranted({ groups: [text, ...text.split(',')] }),
  ),
  // Thirty times an address (RFC 5321 4.5.3.1.3). Over more, the collector's share of two milliseconds looks like growth.
  reader('an address to be linked', 'stages/authenticate/claims.ts', 8 * 1024, (text) =>
    isSameAddress(text, `${text}x`),
  ),
  reader(
    'a key set',
    ['stages/authenticate/jwks/fetch.ts', 'stages/authenticate/jwks/usable-keys.ts'],
    256 * 1024,
    (text) => usableKeys([JSON.parse(`{"kty":"RSA","e":"AQAB","n":"${text}"}`)]),
  ),
  reader('a key set’s text', ['stages/authenticate/jwks/fetch.ts', 'base/lib/parse-shallow.ts'], mebibyte, (text) =>
    parseShallow(`{"keys":${text}`, 32),
  ),
  reader('a JSON text of unique names', 'base/lib/parse-shallow.ts', 256 * 1024, (text) =>
    parseUnambiguous(`{"context":[${JSON.stringify(text)}],"a":${text}}`, 10),
  ),
  reader(
    'a question',
    ['listeners/decision/authzen/questions.ts', 'listeners/decision/authzen/evaluate.ts'],
    256 * 1024,
    (text) => readQuestion(Buffer.from(`{"subject":${text}}`)),
  ),
  reader('a batch of questions', 'listeners/decision/authzen/questions.ts', 256 * 1024, (text) =>
    readQuestionBatch(Buffer.from(`{"subject":{"type":${JSON.stringify(text)},"id":${text}}}`)),
  ),
  reader('a search', 'listeners/decision/authzen/questions.ts', 256 * 1024, (text) =>
    readSearch('action', Buffer.from(`{"page":${text}}`)),
  ),
  reader('a page token', 'listeners/decision/authzen/page-tokens.ts', 256 * 1024, (text) =>
    pageTokens.open(text, text),
  ),
  reader('names of a certificate', 'http/tls/certificates.ts', 128 * 1024, readAlternativeNames),
  reader('an organization', 'stages/resolve/organization-id.ts', head, (text) => readOrganizationId([text])),
  reader('an id of a resource', 'policy/resource-kind.ts', head, (text) =>
    (['bigint', 'uuid', 'text'] as const).map((type) => isResourceId(type, text)),
  ),
  ...(['header', 'query'] as const).map((place) =>
    reader(`an id of a ${place}`, 'stages/resolve/resource-ids.ts', place === 'query' ? targetBytes : head, (text) =>
      readResourceIds(
        {
          route: { resource: { kind: 'agent', place: { in: place, name: 'id' } }, questions: [] },
          params: new Map(),
          target: { ...readTarget('GET', '/', 'h'), search: `?${text}` },
        },
        ['id', text, text, 'x'],
      ),
    ),
  ),
  reader('a cookie', 'stages/resolve/organization-id.ts', head, (text) => readOrganizationCookie([text])),
  reader('a preflight', 'stages/endpoints/cors.ts', head, (text) =>
    cors.answerPreflight(preflightOf(text), () => ['GET']),
  ),
  reader('a body', 'stages/endpoints/read-body.ts', 64 * 1024, (text) => {
    readJsonObject({ readBody: async () => ({ bytes: Buffer.from(text) }) } as unknown as Parameters<
      typeof readJsonObject
    >[0]).catch(() => undefined)
    return JSON.parse(text)
  }),
  reader('a wish for a token', 'stages/endpoints/read-token-request.ts', 64 * 1024, (text) =>
    readTokenRequest({ name: text, scope: text, expiresAt: text, [text]: 1 }, ['api-key'], bounds, []),
  ),
  reader('a page', 'stages/endpoints/tokens.ts', targetBytes, (text) =>
    readPage(`?page=${text}&perPage=${text}&${text}`),
  ),
  reader('a media type', 'stages/relay/answer-headers.ts', head, (text) => readMediaType(['content-type', text])),
  reader('an answer’s lines', ['stages/relay/answer-role.ts', 'stages/relay/answer-headers.ts'], head, (text) =>
    passingLines(200, ['connection', text, 'x-own', text, text, text], answerContext),
  ),
  reader('a Cache-Control', 'stages/relay/shared-caches.ts', head, (text) => composeCacheControl([text], undefined)),
  reader('a Cache-Control and Pragma of many lines', 'stages/relay/shared-caches.ts', head, (text) =>
    passingLines(
      200,
      Array.from(text.slice(0, text.length / 16)).flatMap((value) => ['cache-control', value, 'pragma', value]),
      answerContext,
    ),
  ),
  reader('cookies that are chosen by name', ['stages/locate/cookies.ts', 'base/lib/trim-blanks.ts'], head, (text) =>
    keepCookies(text, new Set(['a'])),
  ),
  reader('a cookie that is set', 'stages/locate/cookies.ts', head, (text) => mayKeepSetCookie(text, new Set(['a']))),
  reader('an event', ['stages/relay/split-events.ts', 'stages/relay/line-ends.ts'], 256 * 1024, (text) =>
    splitInPieces(text, mebibyte),
  ),
  reader('an event in pieces', 'stages/relay/split-events.ts', 256 * 1024, (text) => splitInPieces(text, 64)),
  reader('an event’s fields', 'stages/relay/read-fields.ts', 256 * 1024, (text) =>
    readFields(Buffer.from(`data: ${text}\n\n`)),
  ),
  reader(
    'the choices of a chunk',
    ['stages/relay/chat-choices.ts', 'stages/relay/stream-state.ts'],
    256 * 1024,
    (text) => {
      new ChatChoices().read(Buffer.from(`{"choices":[{"delta":{"content":[${text}]}}]}`), undefined)
      new StreamState({ kind: 'chat', end: 'finishReason' }).findGoodEnd(Buffer.from(`${text}\n\n`))
    },
  ),
  reader('an error in place of an event', 'stages/relay/told-error.ts', 64 * 1024, (text) => {
    mayTellError(Buffer.from(`:${text}`))
    readToldError(Buffer.from(`:${text}\n{"error":"${text}`))
  }),
  reader('a whole JSON object', 'stages/relay/whole-json.ts', 256 * 1024, (text) =>
    isWholeObject(Buffer.from(`{"a":[${text}`)),
  ),
  reader('an event’s members', 'stages/relay/scan-json.ts', 256 * 1024, (text) =>
    scanMembers(Buffer.from(`{"a":${text}}`), 0, () => true),
  ),
  reader('parameters of a list', 'stages/recheck/list-exchanges.ts', 64 * 1024, (text) =>
    readExchangeQuery(new URLSearchParams({ user: text, after: text, route: text })),
  ),
  reader('a message of a change', 'directory/change.ts', 8_000, parseChanges),
  reader('a name of an organization', 'policy/organizations.ts', 1_000, (text) =>
    mayBeTakenFor({ id: 0, slug: text, externalId: text }, noOrganizations),
  ),
  reader('a token’s abilities', 'directory/postgres/rows.ts', 8 * 1024, parseAbilities),
  ofFiles('a key file', 'stages/pin/key-bundle.ts', 32 * 1024, readKeyBundle),
  ofFiles('keys of a key file', 'stages/pin/key-bundle.ts', 32 * 1024 - 60, (text) =>
    readKeyBundle(`-----BEGIN PRIVATE KEY-----\n${text}\n-----END PRIVATE KEY-----\n`),
  ),
  // Policies of more than 32 KiB are read by a thread of their own; the configuration is read before anything listens.
  ofFiles('YAML of policies and configuration', 'policy/document.ts', 4 * 1024, (text) =>
    parseYaml('f', text).document.toJS(),
  ),
  ofFiles('CSV of an import', 'tools/provision/csv.ts', 64 * 1024, (text) => parseCsv('f', text)),
  reader('a path that is rewritten', 'policy/path-rewrite.ts', targetBytes, (text) => rewritePath(rewrite, `/${text}`)),
  reader('an id in another reading of a path', 'policy/deciding-values.ts', targetBytes, (text) =>
    isSameValue(text, `${text}x`),
  ),
  ofFiles('a name of a rewritten path', 'policy/upstream-paths.ts', 64 * 1024, foldName),
  ofFiles('a path pattern', 'policy/route.ts', 64 * 1024, (text) => parsePattern(`/${text}`)),
]

const own = 'reads what the gateway itself wrote'
const operator = 'reads an argument, a variable or a short value of the configuration that an operator typed'
const compiled = 'looks at rows of the table that were read and checked before'

/** Modules, or folders of them, that look at texts and need no measure, each with its reason. */
export const notReaders: Readonly<Record<string, string>> = {
  'demo/': 'the demo world alone, on loopback',
  'analyze/': 'answers an operator about files of his own, in a process or a thread of its own',
  'tools/cli/policy/': 'commands that an operator runs on files of his own, in a process of their own',
  'run/boot/cluster-states.ts': compiled,
  'run/boot/unmatched-signals.ts': operator,
  'policy/compile-route.ts': operator,
  'configuration/upstream-addresses.ts': operator,
  'run/boot/decision-points.ts': operator,
  'tools/provision/': operator,
  'tools/cli/directory.ts': operator,
  'tools/cli/describe-request.ts': operator,
  'tools/cli/admin.ts': operator,
  'tools/cli/sessions.ts': operator,
  'tools/cli/healthcheck.ts': operator,
  'tools/cli/rotate-keys.ts': operator,
  'tools/cli/describe-program.ts': own,
  'tools/cli/completion.ts': own,
  'tools/cli/serve.ts': 'one line of `ps` about the parent of the process',
  'configuration/process-limits.ts': 'reads a file of the kernel',
  'run/reload/listener-tls.ts': operator,
  'run/reload/cached-file-reader.ts': 'counts bytes; what is in them it does not look at',
  'base/lib/text-table.ts': 'prints rows of the database for an operator, in a process of its own',
  'run/boot/stages.ts': own,
  'configuration/configuration.ts': operator,
  'configuration/interpolate.ts': operator,
  'run/boot/check-issuers.ts': operator,
  'run/boot/check-listeners.ts': operator,
  'run/boot/issuer-keys.ts': operator,
  'run/boot/issuer-trust.ts': operator,
  'run/boot/transmitters.ts': operator,
  'run/reload/identity-keys.ts': own,
  'run/reload/policy-status.ts': own,
  'run/boot/process-context.ts': own,
  'tools/cli/rotate-bundle.ts': 'a command on a key file that was read before',
  'run/boot/snapshot.ts': operator,
  'configuration/version.ts': 'reads the package’s own file',
  'configuration/node-releases.ts': 'reads the package’s own file, and the version of Node',
  'run/reload/watch-keys.ts': 'trims texts of key files, which `stages/pin/key-bundle.ts` reads',
  'run/workers/messages.ts': own,
  'listeners/admin/history/': 'words of a search on the admin listener, cut at 256 characters',
  'console/': 'draws pages of what the gateway knows; asked on the admin listener alone',
  'listeners/decision/authzen/authzen.ts': 'parts a target at its first question mark',
  'listeners/decision/preflight.ts': 'looks at header names, which `stages/receive/` has bounded, one by one',
  'directory/postgres/check/': 'a command that an operator runs on his own database',
  'directory/postgres/audit.ts': own,
  'directory/postgres/migrate.ts': own,
  'configuration/failure.ts': 'looks at the first character of a code',
  'directory/postgres/resources.ts': 'writes statements from the kinds of a policy',
  'directory/postgres/query-failure.ts': 'looks at a code of five characters',
  'directory/redis/clients.ts': operator,
  'directory/postgres/hide-user.ts': 'looks for one fixed name in a message of the database’s server',
  'directory/postgres/recognize-pooler.ts': 'one anchored pattern on a message of the database’s server',
  'directory/postgres/schema-fault.ts': own,
  'directory/postgres/servers.ts': 'numbers and names that the database’s server tells of itself',
  'directory/redis/heartbeats.ts': 'one anchored pattern of at most 15 digits',
  'directory/redis/refusals.ts': 'one pattern of bounded runs, on an error of Redis',
  'http/upstream/hosts.ts': operator,
  'http/upstream/networks.ts': operator,
  'http/upstream/origin.ts': operator,
  'http/upstream/idle-connections.ts': 'finds a connection in a list',
  'http/upstream/response.ts': own,
  'stages/locate/locate.ts': operator,
  'listeners/admin/listener.ts': 'parts a target at its first question mark; on the admin listener',
  'observe/audit/batch.ts': own,
  'observe/audit/line-writer.ts': own,
  'base/lib/loopback.ts': 'anchored patterns; on the admin listener and for addresses of the configuration',
  'observe/log/log.ts': own,
  'observe/log/pretty-line.ts': 'a terminal’s own lines, in the demo and in development',
  'observe/tracing/': own,
  'stages/pin/identity-header-cache.ts': own,
  'stages/pin/signing-keys.ts': 'reads blocks that `stages/pin/key-bundle.ts` has parted',
  'stages/pin/verify.ts': 'runs in a backend, on a header that the gateway signed',
  'policy/near-name.ts': 'compares names of at most 64 characters',
  'policy/violations.ts': 'words for an operator about files that `policy/document.ts` has read',
  'policy/load.ts': 'hands texts to `policy/document.ts`',
  'policy/read-files-in-thread.ts': 'hands texts to `policy/document.ts`',
  'policy/read-files.ts': 'hands texts to `policy/document.ts`',
  'policy/regular-file.ts': 'reads a file; what is in it, its readers look at',
  'policy/schema.ts': 'reads the package’s own file',
  'stages/relay/relay.ts': 'one anchored pattern on a media type',
  'stages/relay/event-stream.ts': 'calls `EventSplitter`',
}
