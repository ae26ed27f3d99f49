import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { Test } from 'tap'
import { call, type JsonValue } from './client.ts'
import { startTestGateway, type TestGateway, type TestGatewayOptions, until } from './gateway.ts'
import { type HttpUpstream, startHttpUpstream } from './http-upstream.ts'
import type { Owner } from './owner.ts'
import { type Serving, startServing } from './serve.ts'
import { readMetrics } from './workers.ts'
import type { TestWorld } from './world.ts'

/** A folder for files of the audit, which goes with its owner. */
export function makeAuditFolder(owner: Owner): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-audit-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

/** A write is in a file page by page, so that a moment later a half line may be a whole one. */
function readWhole(file: string): string {
  const text = readFileSync(file, 'utf8')
  if (/(?:^|\n)$/.test(text)) return text
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50)
  return readFileSync(file, 'utf8')
}

/** Every line of these files. Throws for a line that is not whole JSON. */
export const readAudit = (...files: readonly string[]): readonly JsonValue[] =>
  files.flatMap((file) => {
    const text = readWhole(file)
    if (!/^(?:\{[\x20-\x7e]*\}\n)*$/.test(text)) throw new Error(`not lines of ASCII: ${file}`)
    return text
      .split('\n')
      .slice(0, -1)
      .map((line): JsonValue => JSON.parse(line))
  })

/** A gateway in this process, with the lines of its audit so far. */
export type AuditedGateway = TestGateway & Readonly<{ auditFile: string; audit: () => readonly JsonValue[] }>

export async function startAuditedGateway(
  t: Test,
  options: TestGatewayOptions,
  audit: object = {},
): Promise<AuditedGateway> {
  const sink = join(makeAuditFolder(t), 'audit.jsonl')
  const settings = { ...options.settings, audit: { sink, ...audit } }
  const gateway = await startTestGateway(t, { ...options, settings })
  return { ...gateway, auditFile: sink, audit: () => readAudit(sink) }
}

/** Lines of decisions; each request has one. */
export const decisionsOf = (lines: readonly JsonValue[]): readonly JsonValue[] =>
  lines.filter(({ audit }) => audit === 'decision')

/** The number of decision lines of each request. */
export function countIds(lines: readonly JsonValue[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const { requestId } of decisionsOf(lines)) counts.set(requestId, (counts.get(requestId) ?? 0) + 1)
  return counts
}

/** A pipe that a process holds open for reading without reading, until it is told to go on. */
export type HeldPipe = Readonly<{ path: string; kill: () => void; read: () => void; text: () => string }>

export async function holdPipe(owner: Owner): Promise<HeldPipe> {
  const path = join(makeAuditFolder(owner), 'pipe')
  execFileSync('mkfifo', [path])
  // Opened for both, so that opening does not wait; `cat` takes over when a line comes.
  const reader = spawn('sh', ['-c', 'exec 3<>"$0"; echo ready; read go; exec cat <&3', path], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  owner.teardown(() => reader.kill('SIGKILL'))
  let text = ''
  reader.stdout?.on('data', (chunk: Buffer) => {
    text += chunk.toString()
  })
  await until(() => text !== '', 'the reader')
  return {
    path,
    kill: () => void reader.kill('SIGKILL'),
    read: () => void reader.stdin?.write('go\n'),
    text: () => text.replace(/^ready\n/, ''),
  }
}

/** The gateway's own counts: every request has a line, or is counted as lost. */
export async function countAudited(serving: Pick<Serving, 'admin'>) {
  // All of one scrape: a request that ends between two of them is in neither.
  const values = readMetrics((await call(serving.admin, { path: '/metrics' })).text)
  const sum = (name: string): number => Object.values(values(name)).reduce((total, value) => total + value, 0)
  return {
    requests: sum('sallyport_requests_total'),
    malformed: sum('sallyport_malformed_requests_total'),
    written: sum('sallyport_audit_written_total'),
    dropped: sum('sallyport_audit_dropped_total'),
    inFlight: sum('sallyport_requests_in_flight'),
  }
}

/** Waits until every request has ended and no count moves any more, and gives the counts. */
export async function settle(serving: Pick<Serving, 'admin'>) {
  let counts = await countAudited(serving)
  await until(
    async () => {
      const before = counts
      counts = await countAudited(serving)
      return counts.inFlight === 0 && isDeepStrictEqual(counts, before)
    },
    'the end of every request',
    20_000,
  )
  return counts
}

/**
 * Settles once every line is written or missed; a line that is under way moves no count. A request counts twice if its
 * body breaks off.
 */
export async function settleWritten(serving: Pick<Serving, 'admin'>, brokenBodies = 0) {
  let counts = await settle(serving)
  await until(async () => {
    counts = await settle(serving)
    return counts.written + counts.dropped >= counts.requests + counts.malformed - brokenBodies
  }, 'every line')
  return counts
}

let ids = 0
export const makeId = (): string => `request-${ids++}`

/** An event, and then nothing more. */
const streamStart = 'event: response.created\ndata: {"type":"response.created","response":{"id":"r"}}\n\n'

/** An upstream with streams that stay open, requests that it never answers, and an answer for all others. */
export const startAuditUpstream = (owner: Owner): Promise<HttpUpstream> =>
  startHttpUpstream(owner, (request, response) => {
    if (request.url?.startsWith('/agent/')) {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(streamStart)
    } else if (!request.url?.startsWith('/public/hangs')) {
      request.resume().on('end', () => response.end('ok'))
    }
  })

/** Starts gateways that write their audit into files of their own, unless the settings name another sink. */
export const createStart =
  (world: TestWorld, upstream: HttpUpstream) =>
  async (t: Test, audit: Readonly<Record<string, unknown>> = {}, settings = {}) => {
    const file = join(makeAuditFolder(t), 'audit.jsonl')
    const serving = await startServing(t, {
      world,
      upstream: upstream.url,
      settings: { audit: { sink: file, ...audit }, ...settings },
    })
    return { serving, file }
  }
