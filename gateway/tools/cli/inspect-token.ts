import { inspectToken, type TokenInspection } from '../../analyze/inspect-token.ts'
import { describeCause } from '../../base/errors/remedies.ts'
import { paintWarning } from '../../base/lib/paint.ts'
import { escapeJson, escapeLines, formatTable } from '../../base/lib/text-table.ts'
import { type Configuration, loadConfiguration } from '../../configuration/configuration.ts'
import { describeFailure, UsageError } from '../../configuration/failure.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import { createClaimsDirectory } from '../../directory/claims/directory.ts'
import { loadPolicy } from '../../policy/load.ts'
import { createVerifier } from '../../run/boot/issuers.ts'
import { withDirectory } from './directory.ts'

/** Longer than any header that the gateway takes. */
const inputLimitBytes = 65_536

export async function runInspectToken({ config, json }: Readonly<{ config: string; json?: boolean }>): Promise<void> {
  const configuration = loadConfiguration(config, process.env)
  const text = await readInput()
  const { verify, isAsked, stop, carriers, failures } = createVerifier(configuration)
  const now = (): Date => new Date()
  const notes: string[] = []
  try {
    const inspection = await withDirectoryOf(configuration, config, (found) =>
      inspectToken(text, { verify, isAsked, carriers, now, ...found }),
    ).catch((error: unknown) => {
      notes.push(`the database was left out: ${describeFailure(error).message}`)
      return inspectToken(text, { verify, isAsked, carriers, now, directory: undefined })
    })
    if (inspection.cause === 'issuer_unavailable') notes.push(...failures())
    notes.push(...tellWanted(inspection, configuration))
    process.stdout.write(json ? `${escapeJson({ ...inspection, notes })}\n` : describe(inspection))
    for (const note of json ? [] : notes) process.stderr.write(`${paintWarning('note:')} ${escapeLines(note, '  ')}\n`)
    if (inspection.cause !== null) process.exitCode = 1
  } finally {
    stop()
  }
}

function tellWanted({ cause, facts }: TokenInspection, { issuers }: Configuration): readonly string[] {
  if (cause === 'unknown_issuer')
    return [`the configuration has the issuers ${issuers.map(({ issuer }) => JSON.stringify(issuer)).join(', ')}`]
  if (cause !== 'wrong_audience') return []
  const wanted = issuers.filter(({ issuer }) => issuer === facts.iss)
  return wanted.map(({ audience }) => `the configuration has the audience ${JSON.stringify(audience)} for this issuer`)
}

type InspectedDirectory = Pick<Parameters<typeof inspectToken>[1], 'directory' | 'hasEnded'>

function withDirectoryOf(
  configuration: Configuration,
  config: string,
  inspect: (found: InspectedDirectory) => Promise<TokenInspection>,
): Promise<TokenInspection> {
  const { directory, policies } = configuration
  if (directory.kind !== 'claims')
    return withDirectory(config, ({ directory, hasEnded }) => inspect({ directory, hasEnded }))
  const policy = loadPolicy(policies.directory, readUpstreamAddresses(configuration))
  return inspect({ directory: createClaimsDirectory(() => policy).directory })
}

async function readInput(): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > inputLimitBytes) throw new UsageError('standard input is longer than a token: give the token alone')
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString('utf8').trim()
  if (text === '') throw new UsageError('standard input has no token: pipe one into this command')
  return text
}

function tellFact(name: string, value: unknown): string {
  if (typeof value !== 'number') return typeof value === 'string' ? value : escapeJson(value)
  const time = ['exp', 'nbf', 'iat'].includes(name) ? new Date(value * 1_000) : undefined
  return time && Number.isFinite(time.getTime()) ? `${value} (${time.toISOString()})` : String(value)
}

function describe({ cause, rule, checks, facts }: TokenInspection): string {
  const rows = checks.map(({ check, result }) => [check, result === 'fail' ? 'FAIL' : result])
  const known = Object.entries(facts).filter(([, value]) => value !== undefined && value !== null)
  const told = formatTable(
    ['fact', 'value'],
    known.map(([name, value]) => [name, tellFact(name, value)]),
  )
  const described = cause === null ? undefined : describeCause(cause)
  const spoken = rule === undefined ? '' : `rule: ${rule}\n`
  const verdict = described
    ? `refused: ${cause}\n${spoken}${described.meaning}\n${described.remedy}\n`
    : 'no check failed\n'
  return `${formatTable(['check', ''], rows)}\n${told}\n${verdict}`
}
