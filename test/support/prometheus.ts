import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import { until } from './gateway.ts'
import { testUnlessLacking } from './lacks.ts'

/** One series of an answer: its labels, and its newest value. */
export type Sample = Readonly<{ metric: Readonly<Record<string, string>>; value: number }>

/** One series over a time, as shares of that time and values. */
export type Curve = Readonly<{
  metric: Readonly<Record<string, string>>
  points: readonly (readonly [at: number, value: number])[]
}>

/** A Prometheus of the test's own, which scrapes one address twice a second. */
export type Prometheus = Readonly<{
  /** Rejects with Prometheus' own message if the expression is invalid. */
  query: (expression: string) => Promise<readonly Sample[]>
  /** The last so many seconds, in thirty steps. */
  range: (expression: string, seconds: number) => Promise<readonly Curve[]>
  /** Resolves once so many more scrapes are done. */
  scrapes: (count: number) => Promise<void>
}>

/** A test, or a block of them, that runs Prometheus' own programs. Without them it is skipped; `REQUIRE_ALL=1` forbids it. */
export function testPrometheus(t: Test, name: string, run: (t: Test) => Promise<unknown>): void {
  const lacks = ['prometheus', 'promtool'].filter((program) => spawnSync(program, ['--version']).status !== 0)
  testUnlessLacking(t, name, run, lacks.length > 0 ? `there is no ${lacks.join(' or ')} on PATH` : undefined)
}

/** Runs `promtool`; gives its exit code and all that it said. */
export function runPromtool(
  args: readonly string[],
  input = '',
  cwd?: string,
): Readonly<{ code: number; text: string }> {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8', ...(cwd && { cwd }) })
  return { code: status ?? -1, text: `${stdout}${stderr}` }
}

/** Starts Prometheus in a folder that goes with the test. */
export async function startPrometheus(t: Test, scraped: string): Promise<Prometheus> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-prometheus-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'prometheus.yml')
  const job = { job_name: 'sallyport', static_configs: [{ targets: [new URL(scraped).host] }] }
  writeFileSync(file, JSON.stringify({ global: { scrape_interval: '500ms' }, scrape_configs: [job] }))
  const port = await findFreePort()
  const address = `127.0.0.1:${port}`
  const options = [`--config.file=${file}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${address}`]
  const child = spawn('prometheus', options, { stdio: 'ignore' })
  endWithThisProcess(child)
  t.teardown(() => child.kill('SIGKILL'))
  const url = `http://${address}`
  await until(async () => (await fetch(`${url}/-/ready`).catch(() => undefined))?.ok, 'Prometheus is ready', 20_000)
  const ask = async <Row>(path: string, expression: string, more: Record<string, string> = {}) => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams({ query: expression, ...more })}`)
    const { error, data } = (await response.json()) as Answer<Row>
    if (error !== undefined) throw new Error(`${expression}: ${error}`)
    return data?.result ?? []
  }
  const query = async (expression: string): Promise<readonly Sample[]> =>
    (await ask<InstantRow>('query', expression)).map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
  const range = async (expression: string, seconds: number): Promise<readonly Curve[]> => {
    const end = Date.now() / 1_000
    const start = end - seconds
    const span = { start: String(start), end: String(end), step: String(seconds / 30) }
    const rows = await ask<RangeRow>('query_range', expression, span)
    const curves = rows.map(({ metric, values }) => ({
      metric,
      // Zero divided by zero gives no point.
      points: values.flatMap(([at, value]) =>
        value === 'NaN' ? [] : [[(at - start) / seconds, Number(value)] as const],
      ),
    }))
    return curves.filter(({ points }) => points.length > 0)
  }
  const countScrapes = async (): Promise<number> =>
    (await query('count_over_time(up{job="sallyport"}[1h])'))[0]?.value ?? 0
  return {
    query,
    range,
    scrapes: async (count) => {
      const before = await countScrapes()
      await until(async () => (await countScrapes()) >= before + count, `${count} scrapes`, 20_000)
    },
  }
}

type Labels = Readonly<Record<string, string>>
type InstantRow = Readonly<{ metric: Labels; value: readonly [number, string] }>
type RangeRow = Readonly<{ metric: Labels; values: readonly (readonly [number, string])[] }>
type Answer<Row> = Readonly<{ error?: string; data?: Readonly<{ result: readonly Row[] }> }>
