import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Owner } from '../../test/support/owner.ts'
import { requireProgram } from './find-program.ts'
import { otherCore } from './peer.ts'

const run = promisify(execFile)

/** The request to repeat; of several header sets each is taken in turn. */
export type Asked = Readonly<{ url: string; headers: readonly Readonly<Record<string, string>>[] }>

export type Throughput = Readonly<{
  requests: number
  perSecond: number
  failed: number
  /** The part of the failed that was answered, with a status of 400 or more. */
  refused: number
}>

/** Sends as many requests as go through, over connections that are kept. */
export async function drive(owner: Owner, asked: Asked, connections: number, seconds: number): Promise<Throughput> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const script = join(folder, 'headers.lua')
  writeFileSync(script, writeScript(asked.headers))
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '-s', script, asked.url]
  const { stdout } = await run('taskset', ['-c', otherCore, requireProgram('wrk'), ...args])
  const read = (pattern: RegExp): number => Number(pattern.exec(stdout)?.[1] ?? 0)
  const socketErrors = /Socket errors: .*/.exec(stdout)?.[0].match(/\d+/g) ?? []
  const refused = read(/Non-2xx or 3xx responses: (\d+)/)
  return {
    requests: read(/(\d+) requests in/),
    perSecond: read(/Requests\/sec:\s+([\d.]+)/),
    failed: refused + socketErrors.map(Number).reduce((sum, count) => sum + count, 0),
    refused,
  }
}

/** Requests are made once; to send is then to take the next. */
const writeScript = (all: Asked['headers']): string => `
local requests, next = {}, 0
local function add(headers) requests[#requests + 1] = headers end
${all
  .map(
    (headers) =>
      `add({ ${Object.entries(headers)
        .map(([name, value]) => `[${quote(name)}] = ${quote(value)}`)
        .join(', ')} })`,
  )
  .join('\n')}
function init()
  for index, headers in ipairs(requests) do requests[index] = wrk.format(nil, nil, headers) end
end
function request()
  next = next % #requests + 1
  return requests[next]
end
`

/** JSON's strings are Lua's, for what headers hold. */
const quote = (text: string): string => JSON.stringify(text)

export type Latency = Readonly<{ p50Micros: number; p99Micros: number; failed: number; perSecond: number }>

type FortioReport = Readonly<{
  ActualQPS: number
  DurationHistogram: Readonly<{
    Count: number
    Percentiles: readonly Readonly<{ Percentile: number; Value: number }>[]
  }>
  RetCodes: Readonly<Record<string, number>>
}>

/** Requests at a steady rate, and how long they take. */
export async function pace(asked: Asked, connections: number, rate: number, seconds: number): Promise<Latency> {
  const lines = Object.entries(asked.headers[0] ?? {}).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const fixed = ['load', '-quiet', '-json', '-', '-p', '50,99', '-r', '0.000005', '-uniform', '-allow-initial-errors']
  const shape = ['-qps', String(rate), '-c', String(connections), '-t', `${seconds}s`]
  const { stdout } = await run('taskset', [
    '-c',
    otherCore,
    requireProgram('fortio'),
    ...[...fixed, ...shape, ...lines, asked.url],
  ])
  const { ActualQPS, DurationHistogram, RetCodes } = JSON.parse(stdout) as FortioReport
  const find = (wanted: number): number =>
    (DurationHistogram.Percentiles.find(({ Percentile }) => Percentile === wanted)?.Value ?? Number.NaN) * 1_000_000
  return {
    p50Micros: find(50),
    p99Micros: find(99),
    failed: DurationHistogram.Count - (RetCodes['200'] ?? 0),
    perSecond: ActualQPS,
  }
}
