import { randomUUID } from 'node:crypto'
import { escapeJson, formatTable } from '../../base/lib/text-table.ts'
import { loadConfiguration } from '../../configuration/configuration.ts'
import { UsageError } from '../../configuration/failure.ts'
import type { SessionFilter } from '../../directory/directory.ts'
import { askAdmin, findAdmin, nameFetchFailure, readAdmin } from './admin.ts'
import { commandLineAudit, readId, withDirectory } from './directory.ts'

type Chosen = Readonly<{ user?: string; organization?: string; token?: string; route?: string; request?: string }>

export type ListSessionsOptions = Chosen &
  Readonly<{ admin?: string; limit: string; after?: string; config: string; json?: boolean }>

/** A page has up to 1,000 exchanges of under 1 KiB each. */
const answerLimitBytes = 2 * 1024 * 1024

export async function runListSessions(options: ListSessionsOptions): Promise<void> {
  readFilter(options)
  const { user, organization, token, route, request, limit, after } = options
  const origin = options.admin === undefined ? findConfigured(options.config) : readAdmin(options.admin)
  const given = { user, organization, token, route, request, limit, after }
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, value)
  const page = readPage(await ask(origin, `/console/exchanges.json?${query.toString()}`))
  if (options.json) process.stdout.write(`${escapeJson(page)}\n`)
  else if (page.exchanges.length === 0) process.stdout.write('no open exchanges found\n')
  else process.stdout.write(formatTable(header, page.exchanges.map(toCells)))
  if (page.next !== null && !options.json)
    process.stderr.write(`${page.total} exchanges are open; --after ${page.next} lists those that opened later\n`)
}

function findConfigured(config: string): string {
  const origin = findAdmin(loadConfiguration(config, process.env))
  if (origin !== undefined) return origin
  throw new UsageError('listeners.admin.port is 0, any free port. Name the admin listener with --admin.')
}

async function ask(origin: string, path: string): Promise<string> {
  const { status, text } = await askAdmin(origin, path, answerLimitBytes).catch((error: unknown) => {
    throw new Error(`no list of exchanges came from ${origin} (${nameFetchFailure(error)}). Check --admin.`)
  })
  if (status === 200) return text
  if (status !== 400) throw new Error(`${origin} answered ${status}; name an admin listener with --admin`)
  const { error } = readObject(text)
  throw new UsageError(`the filter was refused: ${String(error)}. --limit takes 1 to 1000.`)
}

type Listed = Readonly<Record<string, unknown>>

type Page = Readonly<{ total: number; exchanges: readonly Listed[]; next: string | null }>

function readPage(text: string): Page {
  const { total, exchanges, next } = readObject(text)
  if (typeof total !== 'number' || !Array.isArray(exchanges))
    throw new Error('the answer is not a list of exchanges. Check --admin.')
  return {
    total,
    exchanges: exchanges.map((item): Listed => Object(item)),
    next: typeof next === 'string' ? next : null,
  }
}

function readObject(text: string): Listed {
  try {
    return Object(JSON.parse(text)) as Listed // a member that is missing reads as undefined
  } catch {
    return {}
  }
}

const header = [
  'OPEN SINCE',
  'KIND',
  'ROUTE',
  'USER',
  'ORGANIZATION',
  'CREDENTIAL',
  'CLIENT',
  'RECEIVED',
  'SENT',
  'REQUEST ID',
]

const toCells = (exchange: Listed): readonly string[] => {
  const { openedAt, kind, route, userId, organizationId, credential, tokenId, clientAddress } = exchange
  const named = tokenId === null || tokenId === undefined ? credential : `token ${String(tokenId)}`
  const cells = [openedAt, kind, route, userId, organizationId, named, clientAddress]
  const bytes = [exchange.receivedBytes, exchange.sentBytes]
  return [...cells, ...bytes, exchange.requestId].map((cell) => String(cell ?? '-'))
}

export type EndSessionsOptions = Chosen & Readonly<{ config: string; json?: boolean }>

export async function runEndSessions(options: EndSessionsOptions): Promise<void> {
  const filter = readFilter(options)
  if (Object.values(filter).every((value) => value === null))
    throw new UsageError('name what to end: --user, --organization, --token, --route or --request')
  const id = await withDirectory(options.config, ({ endSessions }) =>
    endSessions(filter, commandLineAudit(null, randomUUID())),
  )
  if (options.json) process.stdout.write(`${escapeJson({ id, ...filter })}\n`)
  else process.stdout.write(`order ${id}: every replica ends the matching open exchanges within a second\n`)
}

function readFilter({ user, organization, token, route, request }: Chosen): SessionFilter {
  const id = (option: string, text: string | undefined): number | null =>
    text === undefined ? null : readId(option, text)
  return {
    userId: id('--user', user),
    organizationId: id('--organization', organization),
    tokenId: id('--token', token),
    route: route ?? null,
    requestId: request ?? null,
  }
}
