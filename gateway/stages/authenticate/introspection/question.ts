import { isUtf8 } from 'node:buffer'
import { parseUnambiguous } from '../../../base/lib/parse-shallow.ts'
import { rediscoverMs } from '../../../rights/paces.ts'
import { askIssuer, type Fetch, type IssuerRoute, inTime, nameAddress, UnusableAnswer } from '../ask-issuer.ts'
import { discover } from '../jwks/fetch.ts'

export type IntrospectionClient = Readonly<{
  clientId: string
  clientSecret: string
  authentication: 'basic' | 'post'
}>

export type IntrospectionAnswer = Readonly<Record<string, unknown>>

export type AskAboutToken = (token: string, withinMs: number) => Promise<IntrospectionAnswer>

export type QuestionOptions = Readonly<{
  issuer: string
  endpoint: string | undefined
  client: IntrospectionClient
  through: IssuerRoute['through']
  signal: AbortSignal
  monotonicMs: () => number
}>

/** Four times the longest JWT of an issuer by default: an answer has the same claims, and `maxInFlight` may be held. */
const answerLimitBytes = 64 * 1024

/** RFC 7662 has flat members, and providers add claims of a few levels; the bound keeps the reader's stack flat. */
const mostDepth = 32

export function createQuestion(options: QuestionOptions): AskAboutToken {
  const { issuer, endpoint, client, through, signal, monotonicMs } = options
  let discovered: Readonly<{ url: string; atMs: number }> | undefined
  const findEndpoint = async (ask: Fetch, bounded: AbortSignal): Promise<string> => {
    const known = endpoint ?? discovered?.url
    if (known !== undefined) return known
    const url = await discoverEndpoint(issuer, ask, bounded)
    discovered = { url, atMs: monotonicMs() }
    return url
  }
  const forgetEndpoint = (): void => {
    if (discovered && monotonicMs() - discovered.atMs > rediscoverMs) discovered = undefined
  }
  return (token, withinMs) =>
    through((ask) =>
      inTime({ signal, address: endpoint ?? issuer, timeoutMs: withinMs }, async (bounded) => {
        const url = await findEndpoint(ask, bounded)
        try {
          const request = { url, limitBytes: answerLimitBytes, ...composeForm(token, client) }
          return readAnswer(await askIssuer(request, ask, bounded), url)
        } catch (error) {
          forgetEndpoint()
          throw error
        }
      }),
    )
}

async function discoverEndpoint(issuer: string, ask: Fetch, signal: AbortSignal): Promise<string> {
  const { url, document } = await discover(issuer, ask, signal)
  const { introspection_endpoint: endpoint } = document
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint))
    throw new UnusableAnswer(`the document at ${url} has no introspection_endpoint`)
  // Tokens and the secret of the client go there, so another host needs the word of an operator.
  if (new URL(endpoint).origin !== new URL(issuer).origin)
    throw new UnusableAnswer(`the introspection_endpoint at ${url} is not at the origin of the issuer`)
  return endpoint
}

function composeForm(token: string, { clientId, clientSecret, authentication }: IntrospectionClient) {
  const form = new URLSearchParams({ token, token_type_hint: 'access_token' })
  const headers: Record<string, string> = { 'content-type': 'application/x-www-form-urlencoded' }
  if (authentication === 'basic') {
    // RFC 6749 2.3.1: both are written as in a form before they are joined.
    const pair = `${encodeForm(clientId)}:${encodeForm(clientSecret)}`
    headers.authorization = `Basic ${Buffer.from(pair).toString('base64')}`
  } else {
    form.set('client_id', clientId)
    form.set('client_secret', clientSecret)
  }
  return { headers, body: form.toString() }
}

const encodeForm = (text: string): string => new URLSearchParams([['', text]]).toString().slice(1)

export function readAnswer(body: Buffer, url: string): IntrospectionAnswer {
  const value = isUtf8(body) ? parseAnswer(body.toString('utf8')) : undefined
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isObject || !('active' in value) || typeof value.active !== 'boolean')
    throw new UnusableAnswer(`the response of ${nameAddress(url)} is not one of RFC 7662`)
  return value as IntrospectionAnswer // an object, as just checked
}

function parseAnswer(text: string): unknown {
  try {
    return parseUnambiguous(text, mostDepth)
  } catch {
    return undefined
  }
}
