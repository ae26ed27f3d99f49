import { parseUnambiguous } from '../../base/lib/parse-shallow.ts'

/** An answer is a few booleans with reasons, and each that is awaited may take this much memory. */
export const answerLimitBytes = 64 * 1024

/** AuthZEN's context is free-form, and reasons nest a few levels deep; the bound keeps the reader's stack flat. */
const mostDepth = 32

export class UnusableDecision extends Error {}

export type PdpAnswer = Readonly<{
  status: number
  headers: Readonly<Record<string, string | readonly string[] | undefined>>
  body: Buffer
}>

export function readDecisions({ status, headers, body }: PdpAnswer, count: number): readonly boolean[] {
  if (body.length > answerLimitBytes) throw new UnusableDecision('the body is too large')
  if (status !== 200) throw new UnusableDecision(`the status is ${status}`)
  if (!isPlainJson(headers)) throw new UnusableDecision('the body is not JSON')
  const value = parseObject(body)
  if (count === 1) return [readDecision(value)]
  const list = readMember(value, 'evaluations')
  if (!Array.isArray(list) || list.length !== count)
    throw new UnusableDecision(`the body has not the ${count} evaluations that were asked for`)
  return list.map(readDecision)
}

/** The gateway decodes no body. One that says that it is encoded, and reads as JSON anyway, has two readings. */
export const isPlainJson = (headers: PdpAnswer['headers']): boolean =>
  /^application\/json[ \t]*(?:;|$)/i.test(String(headers['content-type'])) &&
  /^identity$/i.test(String(headers['content-encoding'] ?? 'identity'))

function parseObject(body: Buffer): unknown {
  try {
    return parseUnambiguous(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body), mostDepth)
  } catch {
    throw new UnusableDecision('the body is not JSON, or names a member twice')
  }
}

function readDecision(value: unknown): boolean {
  const decision = readMember(value, 'decision')
  if (typeof decision !== 'boolean') throw new UnusableDecision('the decision is neither true nor false')
  return decision
}

const readMember = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name] // an object, as just checked
    : undefined

export function readFreshMs(headers: Readonly<Record<string, string | readonly string[] | undefined>>) {
  const { 'cache-control': control, age, expires, pragma } = headers
  if (control === undefined) return expires === undefined && pragma === undefined ? undefined : 0
  const directives = String(control)
    .toLowerCase()
    .split(',')
    .map((part) => part.trim())
  if (directives.some((directive) => /^(?:no-store|no-cache|must-understand)\b/.test(directive))) return 0
  const ages = directives.filter((directive) => /^(?:s-maxage|max-age)\b/.test(directive)).map(readSeconds)
  if (ages.length === 0) return expires === undefined ? undefined : 0
  const heldSeconds = age === undefined ? 0 : Number(age)
  const seconds = Math.min(...ages) - (heldSeconds >= 0 ? heldSeconds : Number.POSITIVE_INFINITY)
  return Math.max(0, seconds * 1_000)
}

function readSeconds(directive: string): number {
  const [, seconds] = /^[a-z-]+="?(\d{1,10})"?$/.exec(directive) ?? []
  return seconds === undefined ? 0 : Number(seconds)
}
