import { existsSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { testUnlessLacking } from '../support/lacks.ts'

/** A span as it was exported. */
export type Span = Readonly<{
  traceId: string
  spanId: string
  parentSpanId: string
  name: string
  /** 2 of a server, 3 of a client. */
  kind: number
  attributes: Readonly<Record<string, string | number | boolean>>
  /** 2 is an error, 0 nothing. */
  status: number
  resource: Readonly<Record<string, string | number | boolean>>
}>

/** Takes what OpenTelemetry's SDK exports over HTTP. */
export type Collector = Readonly<{
  url: string
  spans: () => readonly Span[]
  /** Everything that came, as it came. */
  text: () => string
  headers: () => IncomingHttpHeaders
}>

/** The folder in which `scripts/install-tools.js companions` puts the SDK. */
export const sdkPackages = fileURLToPath(new URL('../../.sallyport/otel/node_modules', import.meta.url))

/** A test, or a block of them, that runs the real SDK. Without it it is skipped; `REQUIRE_ALL=1` forbids it. */
export const testSdk = (t: Test, name: string, run: (t: Test) => Promise<unknown>): void =>
  testUnlessLacking(
    t,
    name,
    run,
    existsSync(sdkPackages) ? undefined : 'OpenTelemetry’s SDK is not there: run scripts/install-tools.js companions',
  )

/** Listens on a free port until the test ends; `status` is what it answers. */
export async function startCollector(t: Test, status = 200): Promise<Collector> {
  const bodies: string[] = []
  let headers: IncomingHttpHeaders = {}
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => {
      text += chunk
    })
    request.on('end', () => {
      bodies.push(text)
      headers = request.headers
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return {
    url: `http://127.0.0.1:${port}`,
    spans: () => bodies.flatMap(readSpans),
    text: () => bodies.join('\n'),
    headers: () => headers,
  }
}

type Value = Readonly<{ stringValue?: string; intValue?: number; doubleValue?: number; boolValue?: boolean }>
type Pairs = readonly Readonly<{ key: string; value: Value }>[]
type Exported = Readonly<{
  resourceSpans: readonly Readonly<{
    resource: Readonly<{ attributes: Pairs }>
    scopeSpans: readonly Readonly<{
      spans: readonly (Omit<Span, 'attributes' | 'status'> &
        Readonly<{ attributes: Pairs; status: Readonly<{ code?: number }> }>)[]
    }>[]
  }>[]
}>

const readSpans = (body: string): readonly Span[] =>
  (JSON.parse(body) as Exported).resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        parentSpanId: span.parentSpanId ?? '',
        attributes: readPairs(span.attributes),
        status: span.status.code ?? 0,
        resource: readPairs(resource.attributes),
      })),
    ),
  )

const readPairs = (pairs: Pairs): Span['attributes'] =>
  Object.fromEntries(
    pairs.map(({ key, value }) => [
      key,
      value.stringValue ?? value.intValue ?? value.doubleValue ?? value.boolValue ?? '',
    ]),
  )
