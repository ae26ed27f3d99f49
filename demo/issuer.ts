import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { type AddressInfo, BlockList, isIPv6 } from 'node:net'
import { OAuth2Issuer, OAuth2Service } from 'oauth2-mock-server'
import { type MintRequest, MintRequestError, parseMintRequest } from './mint-request.ts'

export type DemoIssuer = Readonly<{
  issuer: string
  mintUrl: string
  mint: (request: MintRequest) => Promise<string>
  stop: () => Promise<void>
}>

const mintPath = '/demo/jwt'
const bodyLimitBytes = 64 * 1024
const defaultLifetimeSeconds = 12 * 60 * 60

export type DemoIssuerOptions = Readonly<{
  port?: number
  host?: string
  audience: string
  key?: Readonly<Record<string, unknown>>
}>

export async function startIssuer(options: DemoIssuerOptions): Promise<DemoIssuer> {
  const host = options.host ?? '127.0.0.1'
  if (!isLoopback(host)) throw new Error(`The demo issuer listens on loopback addresses only, not on ${host}`)
  const issuer = new OAuth2Issuer()
  if (options.key === undefined) await issuer.keys.generate('RS256')
  else await issuer.keys.add({ ...options.key })
  const { requestHandler } = new OAuth2Service(issuer)
  const mint = (request: MintRequest): Promise<string> => mintToken(issuer, options.audience, request)

  const server = createServer((request, response) => {
    if (request.method === 'POST' && request.url === mintPath) void answerMint(request, response, mint)
    else requestHandler(request, response)
  })
  server.listen(options.port ?? 0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // A listening TCP server has an AddressInfo.
  issuer.url = `http://${isIPv6(host) ? `[${host}]` : host}:${port}`

  const stop = async (): Promise<void> => {
    if (!server.listening) return
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  return { issuer: issuer.url, mintUrl: `${issuer.url}${mintPath}`, mint, stop }
}

function mintToken(issuer: OAuth2Issuer, audience: string, request: MintRequest): Promise<string> {
  const { sub, email, expiresIn = defaultLifetimeSeconds, claims = {} } = request
  return issuer.buildToken({
    expiresIn,
    scopesOrTransform: (header, payload) => {
      header.typ = 'at+jwt' // RFC 9068
      Object.assign(payload, { aud: audience, sub }, email === undefined ? {} : { email }, claims)
      for (const [name, value] of Object.entries(claims)) {
        if (value === null) delete payload[name]
      }
    },
  })
}

async function answerMint(request: IncomingMessage, response: ServerResponse, mint: DemoIssuer['mint']): Promise<void> {
  try {
    const body = await readBody(request)
    if (body === undefined) answerJson(response, 413, { error: `the body is larger than ${bodyLimitBytes} bytes` })
    else answerJson(response, 200, { jwt: await mint(parseMintRequest(body)) })
  } catch (cause) {
    if (cause instanceof MintRequestError) answerJson(response, 400, { error: cause.message })
    else response.destroy()
  }
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes <= bodyLimitBytes) chunks.push(chunk)
  }
  return bytes > bodyLimitBytes ? undefined : Buffer.concat(chunks).toString('utf8')
}

function answerJson(response: ServerResponse, status: number, body: Readonly<Record<string, string>>): void {
  const text = JSON.stringify(body)
  response.writeHead(status, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
  response.end(text)
}

function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  const loopback = new BlockList()
  loopback.addSubnet('127.0.0.0', 8, 'ipv4')
  return loopback.check(host, 'ipv4')
}
