import { existsSync, statSync } from 'node:fs'
import { type FoundRequest, readRemembered } from '../../analyze/found-request.ts'
import { searchAudit } from '../../analyze/search-audit.ts'
import { describeCause } from '../../base/errors/remedies.ts'
import { paintWarning } from '../../base/lib/paint.ts'
import { escapeJson, escapeLines } from '../../base/lib/text-table.ts'
import { type Configuration, loadConfiguration } from '../../configuration/configuration.ts'
import { describeFailure, UsageError } from '../../configuration/failure.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import type { TokenDeed } from '../../directory/postgres/audit.ts'
import { loadPolicy } from '../../policy/load.ts'
import { isRequestId } from '../../stages/receive/request-id.ts'
import { askAdmin, findAdmin, nameFetchFailure, readAdmin } from './admin.ts'
import { describeRequest, type ExplainedMatch } from './describe-request.ts'
import { withDirectory } from './directory.ts'

export type ExplainRequestOptions = Readonly<{ audit?: string; admin?: string; config: string; json?: boolean }>

type Search = { matches: readonly FoundRequest[]; readonly places: string[]; readonly notes: string[] }

export async function runExplainRequest(requestId: string, options: ExplainRequestOptions): Promise<void> {
  if (!isRequestId(requestId))
    throw new UsageError(
      'the request id is not one that the gateway writes down: copy x-request-id of the response, 1 to 128 letters, digits, dots, dashes or underscores',
    )
  const notes: string[] = []
  const configuration = readConfiguration(options, notes)
  const search = await findRequest(requestId, options, configuration, notes)
  const matches = await explainMatches(search.matches, options, configuration, notes)
  if (options.json) process.stdout.write(`${escapeJson({ requestId, searched: search.places, matches, notes })}\n`)
  else {
    process.stdout.write(matches.map((match) => `${describeRequest(match)}\n`).join(''))
    for (const note of new Set(notes)) process.stderr.write(`${paintWarning('note:')} ${escapeLines(note, '  ')}\n`)
  }
  if (matches.length > 0) return
  throw new Error(
    `request ${requestId} was not found in ${search.places.join(' or ') || 'any place that could be searched'}; ` +
      'name another file with --audit, or another replica with --admin',
  )
}

function readConfiguration(
  { audit, admin, config }: ExplainRequestOptions,
  notes: string[],
): Configuration | undefined {
  try {
    return loadConfiguration(config, process.env)
  } catch (error) {
    if (audit === undefined && admin === undefined) throw error
    notes.push(`policy and database were left out: ${describeFailure(error).message}`)
    return undefined
  }
}

async function findRequest(
  requestId: string,
  { audit, admin }: ExplainRequestOptions,
  configuration: Configuration | undefined,
  notes: string[],
): Promise<Search> {
  const isNamed = audit !== undefined || admin !== undefined
  const file = isNamed ? audit : findAuditFile(configuration)
  const origin = isNamed ? admin && readAdmin(admin) : findAdmin(configuration)
  const search: Search = { matches: [], places: [], notes }
  if (file !== undefined) await searchFile(file, requestId, search)
  if (origin) await searchListener(origin, requestId, search, isNamed && file === undefined)
  return search
}

const findAuditFile = (configuration: Configuration | undefined): string | undefined => {
  const sink = configuration?.audit.sink ?? 'off'
  // Reading a FIFO would take lines away from its reader.
  return existsSync(sink) && statSync(sink).isFile() ? sink : undefined
}

async function searchFile(file: string, requestId: string, search: Search): Promise<void> {
  try {
    const { found, left } = await searchAudit(file, requestId)
    search.places.push(file === '-' ? 'standard input' : file)
    search.matches = [...search.matches, ...found]
    if (left > 0) search.notes.push(`${left} more matches were left out, as clients choose request ids`)
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    throw new UsageError(
      `${file} cannot be read (${code}): name the file of audit.sink with --audit, or - for standard input`,
    )
  }
}

/** The listener may be down while the file is there: that is an error where nothing else was searched. */
async function searchListener(origin: string, requestId: string, search: Search, isRequired: boolean): Promise<void> {
  try {
    const found = readRemembered(await askListener(origin, requestId), requestId, origin)
    search.places.push(origin)
    search.matches = [...search.matches, ...found.filter((request) => !isKnown(request, search.matches))]
  } catch (error) {
    const reason = `nothing at ${origin} answered as an admin listener does (${nameFetchFailure(error)})`
    if (isRequired) throw new Error(`${reason}; is the gateway running, and does --admin name its admin listener?`)
    search.notes.push(reason)
  }
}

const isKnown = (request: FoundRequest, known: readonly FoundRequest[]): boolean =>
  known.some(
    ({ outcome, cause, time }) =>
      outcome === request.outcome &&
      cause === request.cause &&
      Math.abs(Date.parse(time) - Date.parse(request.time)) < sameMomentMs,
  )

/** The audit has the time of the decision, the console that of the end. Most requests end within a second. */
const sameMomentMs = 1_000

/** Ten times a page of 100 requests, of under 1 KiB each. */
const answerLimitBytes = 1024 * 1024

async function askListener(origin: string, requestId: string): Promise<string> {
  const path = `/console/requests.json?${new URLSearchParams({ id: requestId }).toString()}`
  const { status, text } = await askAdmin(origin, path, answerLimitBytes)
  if (status !== 200) throw new Error(`status ${status}`)
  return text
}

async function explainMatches(
  matches: readonly FoundRequest[],
  { config }: ExplainRequestOptions,
  configuration: Configuration | undefined,
  notes: string[],
): Promise<readonly ExplainedMatch[]> {
  const sources = findRoutes(configuration, notes)
  const asked = matches.flatMap(({ cause, tokenId }) =>
    cause === 'token_unknown' && tokenId !== null ? [tokenId] : [],
  )
  const trails = configuration
    ? await readTrails(new Set(asked), config, notes)
    : new Map<number, readonly TokenDeed[]>()
  return matches.map((match) => ({
    ...match,
    ...explainOutcome(match),
    policy: (match.route !== null && sources.get(match.route)) || null,
    tokenTrail: (match.cause === 'token_unknown' && match.tokenId !== null && trails.get(match.tokenId)) || null,
  }))
}

function findRoutes(configuration: Configuration | undefined, notes: string[]): ReadonlyMap<string, string> {
  if (!configuration) return new Map()
  try {
    const { routes } = loadPolicy(configuration.policies.directory, readUpstreamAddresses(configuration))
    return new Map(routes.map(({ id, source }) => [id, source]))
  } catch (error) {
    notes.push(`the policy was left out: ${describeFailure(error).message}`)
    return new Map()
  }
}

/** A client may claim a new number with every request. */
const trailLimit = 100

async function readTrails(
  tokenIds: ReadonlySet<number>,
  config: string,
  notes: string[],
): Promise<ReadonlyMap<number, readonly TokenDeed[]>> {
  const trails = new Map<number, readonly TokenDeed[]>()
  if (tokenIds.size === 0) return trails
  if (tokenIds.size > trailLimit) notes.push(`only ${trailLimit} of ${tokenIds.size} token numbers were looked up`)
  try {
    await withDirectory(config, async ({ readTokenTrail }) => {
      for (const id of [...tokenIds].slice(0, trailLimit)) trails.set(id, await readTokenTrail(id))
    })
  } catch (error) {
    notes.push(`the trail of the token was left out: ${describeFailure(error).message}`)
  }
  return trails
}

function explainOutcome({ outcome, reason, cause, status }: FoundRequest): Pick<ExplainedMatch, 'meaning' | 'remedy'> {
  if (outcome === 'allowed')
    return {
      meaning: 'The gateway let the request through.',
      remedy: 'For what became of it then, read the log line of this id, or ask the admin listener with --admin.',
    }
  if (outcome === 'slow')
    return { meaning: 'The first byte of the upstream came late.', remedy: 'Look at the upstream.' }
  const described = describeCause(cause ?? '') ?? describeCause(reason ?? '')
  if (described) return { meaning: described.meaning, remedy: described.remedy }
  return outcome === 'failed'
    ? { meaning: `The upstream answered ${status ?? 'with a failure'}.`, remedy: 'Look at the log of the upstream.' }
    : { meaning: 'The cause is not one of this version.', remedy: null }
}
