import { escapeControls, escapeJson } from '../../base/lib/text-table.ts'
import { loadConfiguration } from '../../configuration/configuration.ts'
import { UsageError } from '../../configuration/failure.ts'

export type HealthcheckOptions = Readonly<{ config: string; live?: boolean; timeoutMs: string; json?: boolean }>

type Words = Readonly<Record<string, string>>

type Health = Readonly<{ status: string; checks?: Words; causes?: Words; isGood: boolean }>

export async function runHealthcheck({ config, live = false, timeoutMs, json }: HealthcheckOptions): Promise<void> {
  const { admin } = loadConfiguration(config, process.env).listeners
  if (admin.port === 0) throw new UsageError('listeners.admin.port is 0, any free port. Give it a number.')
  const url = `${toOrigin(admin)}${live ? '/healthz' : '/readyz'}`
  const { isGood, ...health } = await askHealth(url, readTimeout(timeoutMs))
  if (json) process.stdout.write(`${escapeJson(health)}\n`)
  if (!isGood) throw new Error(describeFailedHealth(health, url))
  if (!json)
    process.stdout.write(`${health.status}${health.checks ? `: ${listStates(health.checks, health.causes)}` : ''}\n`)
}

export function toOrigin({ host, port }: Readonly<{ host: string; port: number }>): string {
  const address = { '0.0.0.0': '127.0.0.1', '::': '::1' }[host] ?? host
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
}

function readTimeout(text: string): number {
  const timeoutMs = Number(text)
  if (/^[0-9]{1,6}$/.test(text) && timeoutMs > 0) return timeoutMs
  throw new UsageError('--timeout-ms takes a whole number of milliseconds from 1 to 999999')
}

async function askHealth(url: string, timeoutMs: number): Promise<Health> {
  // Once the head is there, Node's fetch may drop its signal: this timer ends the wait for the body.
  const timer = new Promise<Health>((resolve) => setTimeout(() => resolve(unreachable), timeoutMs).unref())
  return Promise.race([readHealth(url, AbortSignal.timeout(timeoutMs)), timer])
}

async function readHealth(url: string, signal: AbortSignal): Promise<Health> {
  try {
    const answer = await fetch(url, { signal, redirect: 'error' })
    const body: unknown = await answer.json()
    return { ...readBody(body), isGood: answer.status === 200 }
  } catch {
    return unreachable
  }
}

const unreachable: Health = { status: 'unreachable', isGood: false }

/** Another program may listen there: only well-formed fields are passed on. */
function readBody(body: unknown): Omit<Health, 'isGood'> {
  const { status, checks, causes } = Object(body) as Readonly<Record<string, unknown>>
  if (typeof status !== 'string') throw new Error('the admin listener did not answer')
  const states = readWords(checks)
  const reasons = readWords(causes)
  return { status: escapeControls(status), ...(states && { checks: states }), ...(reasons && { causes: reasons }) }
}

function readWords(value: unknown): Words | undefined {
  const words = Object.entries(Object(value)).map(
    ([name, word]) => [escapeControls(name), escapeControls(String(word))] as const,
  )
  return words.length > 0 ? Object.fromEntries(words) : undefined
}

const listStates = (checks: Words, causes: Words = {}): string =>
  Object.entries(checks)
    .map(([name, state]) => `${name} ${state}${causes[name] === undefined ? '' : ` (${causes[name]})`}`)
    .join(', ')

const describeFailedHealth = ({ status, checks, causes }: Omit<Health, 'isGood'>, url: string): string =>
  status === 'unreachable'
    ? `no answer from ${url} in time. Check that the gateway runs with this configuration.`
    : `not ready: ${checks ? listStates(checks, causes) : status}. See the gateway's log for the reason.`
