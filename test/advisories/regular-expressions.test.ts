import t from 'tap'
import { createCors } from '../../gateway/answer/cors.ts'
import { parseApiToken } from '../../gateway/authenticate/api-token.ts'
import { readClaims } from '../../gateway/authenticate/claims.ts'
import { readCredential } from '../../gateway/authenticate/credential.ts'
import { chooseKey, parseToken } from '../../gateway/authenticate/signature.ts'
import { readOriginalRequest } from '../../gateway/decision/original-request.ts'
import type { Exchange } from '../../gateway/engine/exchange.ts'
import { refusalOf } from '../../gateway/engine/parse-error.ts'
import { redact } from '../../gateway/observe/redact.ts'
import { readClient } from '../../gateway/receive/client.ts'
import { headerRole } from '../../gateway/receive/header-role.ts'
import { isHost, readHeaders } from '../../gateway/receive/headers.ts'
import { readRequestId } from '../../gateway/receive/request-id.ts'
import { readTarget } from '../../gateway/receive/target.ts'
import { passingLines, readMediaType } from '../../gateway/relay/answer-headers.ts'
import { readFields } from '../../gateway/relay/read-fields.ts'
import { skimMembers } from '../../gateway/relay/skim-json.ts'
import { EventSplitter } from '../../gateway/relay/split-events.ts'
import { readOrganizationCookie, readOrganizationId } from '../../gateway/resolve/organization-id.ts'
import { otherReadings } from '../../gateway/route/readings.ts'

const issuer = { issuer: 'i', audiences: ['us'], clockToleranceSeconds: 0, linkVerifiedEmail: false }
const cors = createCors({ origins: ['https://app.example'], maxAgeSeconds: 1, credentials: false })
const preflightOf = (names: string): Exchange =>
  ({
    method: 'OPTIONS',
    headers: [
      'origin',
      'https://app.example',
      'access-control-request-method',
      'PUT',
      'access-control-request-headers',
      names,
    ],
  }) as unknown as Exchange // nothing else of it is read
const sizeLimit = 1_000_000
const limited = (text: string, name: string): unknown =>
  readHeaders({ headers: ['host', 'h', name, text], httpVersion: '1.1' }, sizeLimit)

/** A head that node:http could not read, for whatever it says is the reason. */
const unreadable = (head: string): void => {
  const rawPacket = Buffer.from(`${head}\r\n\r\n`, 'latin1')
  for (const code of ['HPE_INVALID_METHOD', 'HPE_INVALID_TRANSFER_ENCODING', 'HPE_HEADER_OVERFLOW'])
    refusalOf(Object.assign(new Error(code), { code, rawPacket, bytesParsed: rawPacket.length }))
}

/** Whoever reads what a client, an upstream or an issuer wrote. */
const readers: Readonly<Record<string, (text: string) => unknown>> = {
  'the log’s look at a path': redact,
  'a head that is none': unreadable,
  'an unreadable encoding': (text) => unreadable(`POST / HTTP/1.1\r\nTransfer-Encoding: a${text}`),
  'a request that a proxy tells of': (text) =>
    readOriginalRequest({
      ...{ method: 'GET', target: '/authorize' },
      headers: ['x-forwarded-method', text, 'x-forwarded-uri', text, 'x-forwarded-host', text],
    }),
  'a target': (text) => readTarget('GET', `/${text}`, 'h', sizeLimit),
  'a target in absolute form': (text) => readTarget('GET', `http://${text}`, text, sizeLimit),
  'a target’s other readings': (text) => otherReadings(readTarget('GET', `/${text}`, 'h', sizeLimit)),
  'a host': isHost,
  'a header’s name': headerRole,
  'a length': (text) => limited(text, 'content-length'),
  'an encoding': (text) => limited(text, 'transfer-encoding'),
  Connection: (text) => limited(text, 'connection'),
  'a trace': (text) => limited(text, 'traceparent'),
  'a request id': (text) => readRequestId(['x-request-id', text]),
  'a chain of proxies': (text) =>
    readClient(
      { peerAddress: '127.0.0.1', isEncrypted: false },
      { host: 'h', forwarded: { for: [text], proto: [text], host: [text] } },
      () => true,
    ),
  'a Bearer': (text) => readCredential({ authorization: [`Bearer ${text}`], oauthAccessToken: [] }),
  'a scheme': (text) => readCredential({ authorization: [text], oauthAccessToken: [] }),
  'an API token': (text) => parseApiToken(`oat_${text}`),
  'a JWT': parseToken,
  'a JWT’s header': (text) => {
    const header = Buffer.from(JSON.stringify({ alg: 'RS256', typ: text })).toString('base64url')
    // It is read before anything is waited for.
    chooseKey(header, () => Promise.reject(new TypeError('no key'))).catch(() => undefined)
  },
  'an e-mail address': (text) =>
    readClaims({ iss: 'i', aud: 'us', sub: 's', exp: 1, email: text, given_name: text }, issuer),
  'a subject': (text) => readClaims({ iss: 'i', aud: 'us', sub: text, exp: 1 }, issuer),
  'an organization': (text) => readOrganizationId([text]),
  'a cookie': (text) => readOrganizationCookie([text]),
  'a preflight': (text) => cors.answerPreflight(preflightOf(text), () => ['GET']),
  'a media type': (text) => readMediaType(['content-type', text]),
  'an answer’s lines': (text) => passingLines(200, ['connection', text, 'x-own', text]),
  'an event': (text) => new EventSplitter(sizeLimit).split(Buffer.from(text)),
  'an event’s fields': (text) => readFields(Buffer.from(`data: ${text}\n\n`)),
  'an event’s members': (text) => skimMembers(Buffer.from(`{"a":${text}}`), 0, () => true),
}

const deep = '%25252541'
const seeds = [
  'a',
  'A',
  '0',
  '1',
  ' ',
  '\t',
  '.',
  ';',
  ',',
  ':',
  '@',
  '%',
  '/',
  '-',
  '_',
  '+',
  '=',
  '"',
  '\\',
  '[',
  '{',
  '(',
  '\n',
  '\r',
  'a.',
  'a@',
  'a,',
  ', ',
  ';a',
  '/a',
  '/A;',
  '%20',
  '%41',
  '%2541',
  deep,
  `/A;%20${deep}`,
  '%c3%a9',
  'eyJ',
  'eyJhbGciOi',
  'oat_',
  'eyJa.',
  'current-org-id=;',
  'current-org-id=1; ',
  'http:',
  '::',
  '1.1.1.1, ',
  'Bearer ',
  'application/',
  '+json',
  '\n\n',
  '\r\n',
  'data:',
  '[[',
  '{"a":',
  '\\"',
]
const endings = ['', '!', 'x', '\u0000', '@', '"']

const fill = (seed: string, ending: string, size: number): string =>
  seed.repeat(Math.ceil(size / seed.length)).slice(0, size - ending.length) + ending

/** Of the processor: on a busy machine the clock says what others do. */
function measureMs(read: (text: string) => unknown, text: string): number {
  const started = process.cpuUsage()
  try {
    read(text)
  } catch {
    // A refusal is an answer; only its time counts.
  }
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1_000
}

/** A linear reader takes 16 times as long for the larger one, a quadratic one 256 times. */
const small = 4 * 1024
const large = 64 * 1024
const most = 100

/** Below this a measurement says nothing; and nobody is held up by it. */
const floorMs = 0.3

// path-to-regexp CVE-2024-45296: one request held everybody up. Found here: the log's own look at a path took 4 s for
// 64 KiB of it, and the reason for a refusal 2 s where 30 KiB of spaces stood in Transfer-Encoding.
for (const [what, read] of Object.entries(readers))
  t.test(`${what}: a hostile text takes as long as it is, and no longer`, async (t) => {
    for (const seed of seeds)
      for (const ending of endings) {
        const text = fill(seed, ending, large)
        // Whatever else the machine does, one of some measurements is a fair one.
        let tookMs = measureMs(read, text)
        if (tookMs <= floorMs * most) continue
        const shortMs = Math.max(floorMs, ...[1, 2, 3].map(() => measureMs(read, fill(seed, ending, small))))
        for (let again = 0; again < 3 && tookMs > shortMs * most; again++)
          tookMs = Math.min(tookMs, measureMs(read, text))
        if (tookMs <= shortMs * most) continue
        t.fail(
          `${JSON.stringify(seed + ending)}: ${tookMs.toFixed(1)} ms, and ${shortMs.toFixed(1)} ms for a sixteenth`,
        )
        return
      }
    t.pass()
  })
