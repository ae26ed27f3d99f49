import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { findFreePort } from '../../gateway/demo/free-port.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import { until } from './gateway.ts'
import { testUnlessLacking } from './lacks.ts'

/** One series of an answer: its labels, and its newest value. */
export type Sample = Readonly<{ metric: Readonly<Record<string, string>>; value: number }>

/** A Prometheus of the test's own, which scrapes one address twice a second. */
export type Prometheus = Readonly<{
  /** Rejects with Prometheus' own words where the expression is no good. */
  query: (expression: string) => Promise<readonly Sample[]>
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
  const query = async (expression: string): Promise<readonly Sample[]> => {
    const response = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query: expression })}`)
    const { error, data } = (await response.json()) as Answer
    if (error !== undefined) throw new Error(`${expression}: ${error}`)
    return (data?.result ?? []).map(({ metric, value }) => ({ metric, value: Number(value[1]) }))
  }
  const countScrapes = async (): Promise<number> =>
    (await query('count_over_time(up{job="sallyport"}[1h])'))[0]?.value ?? 0
  return {
    query,
    scrapes: async (count) => {
      const before = await countScrapes()
      await until(async () => (await countScrapes()) >= before + count, `${count} scrapes`, 20_000)
    },
  }
}

type Answer = Readonly<{
  error?: string
  data?: Readonly<{
    result: readonly Readonly<{ metric: Readonly<Record<string, string>>; value: readonly [number, string] }>[]
  }>
}>
