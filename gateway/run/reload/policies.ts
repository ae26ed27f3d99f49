// Policies, keys and certificates are read again when their files change, without a restart.
import { isDeepStrictEqual } from 'node:util'
import { type PolicySummary, summarizeChange } from '../../analyze/diff/summarize.ts'
import { summarizeInThread } from '../../analyze/diff/summarize-in-thread.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import type { PolicyTableStore } from '../../directory/postgres/policy-tables.ts'
import type { PolicyState } from '../../listeners/admin/policy-state.ts'
import { describeBug, describeError, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import type { Policy } from '../../policy/compile.ts'
import type { PolicyTexts } from '../../policy/file.ts'
import { parsePolicyInThread, readPolicyTexts, readPolicyTextsNow } from '../../policy/load.ts'
import { policyLookMs } from '../../rights/budget.ts'
import { createCachedFileReader } from './cached-file-reader.ts'
import { createMissingFiles, findPlaces, type HoldReason, type MissingFiles, type Table } from './held-policies.ts'
import { type PolicyStatus, type PolicyTextList, takeFingerprint, trackPolicyStatus } from './policy-status.ts'
import { createFilesWatch, type Poll, repeat } from './watch-files.ts'

export type Policies = Readonly<{
  /** Reads the files now and takes them even if they were held back. Resolves once they are in force, or refused. */
  reload: () => Promise<void>
  stop: () => void
}>

export type TablePolicies = Policies & Readonly<{ state: () => PolicyState; texts: () => PolicyTextList }>

type PolicyDependencies = Readonly<{
  log: Log
  metrics: Metrics
  now: () => Date
  monotonicMs: () => number
  tables: PolicyTableStore
}>

/** The next start alone compares with the stored policy, so a database that is down is asked rarely. */
const keepEveryMs = 30_000

/** A line of the log stays readable; `policy diff` lists all. */
const mostNamedRoutes = 50

/**
 * Characters of both policies, about 25 routes each. A cold comparison of 50 routes blocked the event loop for 73 ms.
 */
const compareApartFrom = 8_192

export async function startPolicies(
  configuration: Configuration,
  apply: (policy: Policy) => void,
  dependencies: PolicyDependencies,
): Promise<TablePolicies> {
  const { log, metrics, now, monotonicMs } = dependencies
  const { directory } = configuration.policies
  const status = trackPolicyStatus(directory, now)
  const missing = createMissingFiles(directory, monotonicMs)
  const holder = createHolder(status, missing, dependencies)
  const { parse, compare } = createReader(configuration)
  const tell = createTell(status, dependencies)
  const onBug = (error: unknown): void => {
    log.error({ error: describeBug(error) }, 'policy check failed')
  }
  const texts = readPolicyTextsNow(directory)
  let inForce = await parse(texts)
  const keepTable = createKeepTable(directory, () => inForce, { compare, tell, tables: dependencies.tables })
  const take = (table: Table): void => {
    apply(table.policy)
    inForce = table
    status.noteTaken(table.texts)
    metrics.notePolicyLoad(now())
    holder.release()
    keepTable().catch(onBug)
  }
  take(inForce)
  metrics.notePolicyReload(true)
  const takesWider = configuration.reload.onWidening === 'allow'
  const intake: Intake = { inForce: () => inForce, takesWider, parse, compare, missing, holder, take, tell }
  const look = watchPolicyFiles(directory, texts, intake, { status, log, metrics })
  const stops = [repeat(look, policyLookMs, onBug), repeat(keepTable, keepEveryMs, onBug)]
  return {
    reload: () => look(true).catch(onBug),
    stop: () => {
      for (const stop of stops) stop()
    },
    state: status.state,
    texts: status.texts,
  }
}

type Reader = Readonly<{
  parse: (texts: PolicyTexts) => Promise<Table>
  compare: (old: PolicyTexts, fresh: Table, known?: Table) => Promise<PolicySummary>
}>

function createReader(configuration: Configuration): Reader {
  const { directory } = configuration.policies
  const upstreams = readUpstreamAddresses(configuration)
  return {
    parse: async (texts) => ({
      policy: await parsePolicyInThread(directory, texts, upstreams),
      texts,
      places: await findPlaces(directory, texts),
    }),
    compare: async (old, fresh, known) =>
      known && lengthOf(old) + lengthOf(fresh.texts) < compareApartFrom
        ? summarizeChange(known.policy, fresh.policy)
        : summarizeInThread({ directory, old, fresh: fresh.texts, upstreams }),
  }
}

type Tell = (comparing: Promise<PolicySummary>, message: string) => void

const createTell =
  (status: PolicyStatus, { log, metrics }: PolicyDependencies): Tell =>
  (comparing, message) => {
    comparing.then(
      (summary) => {
        const named = cutSummary(summary)
        metrics.notePolicyChange(summary)
        status.noteChange(named)
        log[summary.widened.length > 0 ? 'warn' : 'info'](named, message)
      },
      (error: unknown) => log.error({ error: describeError(error) }, 'policy comparison failed'),
    )
  }

type Holder = Readonly<{
  isHolding: () => boolean
  holds: (texts: PolicyTexts) => boolean
  hold: (texts: PolicyTexts, verdict: HoldReason, summary?: PolicySummary) => 'held'
  release: () => void
}>

function createHolder(
  status: PolicyStatus,
  missing: Pick<MissingFiles, 'forget'>,
  { log, metrics, monotonicMs }: PolicyDependencies,
): Holder {
  let held: (HoldReason & Readonly<{ texts: PolicyTexts }>) | undefined
  return {
    isHolding: () => held !== undefined,
    holds: (texts) => held !== undefined && isDeepStrictEqual(held.texts, texts) && monotonicMs() < held.untilMs,
    hold: (texts, verdict, summary) => {
      const isNew = held?.untilMs !== verdict.untilMs || !isDeepStrictEqual(held.texts, texts)
      held = { ...verdict, texts }
      metrics.notePolicyHeld(true)
      const { reason, names } = verdict
      const fields = { reason, names, ...(summary && cutSummary(summary)) }
      status.noteHeld(fields)
      if (isNew) log.warn(fields, 'policies held back; the last ones stay in force')
      return 'held'
    },
    release: () => {
      if (!held) return
      held = undefined
      missing.forget()
      metrics.notePolicyHeld(false)
      status.noteHeld(undefined)
    },
  }
}

type KeepOptions = Readonly<{ compare: Reader['compare']; tell: Tell; tables: PolicyTableStore }>

/**
 * Stores the policy in force for the next start to compare with. The first call logs the changes since the last start.
 */
function createKeepTable(
  directory: string,
  inForce: () => Table,
  { compare, tell, tables }: KeepOptions,
): () => Promise<void> {
  let kept: string | undefined
  let isKeeping = false
  let isStart = true
  return async () => {
    const current = inForce()
    const table = { fingerprint: takeFingerprint([...current.texts]), files: [...current.texts] }
    if (isKeeping || kept === table.fingerprint) return
    isKeeping = true
    try {
      const before = isStart ? await tables.load(directory) : undefined
      if (before && before.fingerprint !== table.fingerprint)
        tell(compare(new Map(before.files), current), 'policies changed since the last start')
      isStart = false
      await tables.save(directory, table)
      kept = table.fingerprint
    } catch {
      // Requests report a database that is down; the next interval tries again.
    } finally {
      isKeeping = false
    }
  }
}

type Intake = Reader &
  Readonly<{
    inForce: () => Table
    takesWider: boolean
    missing: MissingFiles
    holder: Holder
    take: (table: Table) => void
    tell: Tell
  }>

async function consider(texts: PolicyTexts, isTrusting: boolean, intake: Intake): Promise<'held' | undefined> {
  const { holder, missing, parse, compare, take, tell } = intake
  const isKnown = holder.holds(texts)
  if (isKnown && !isTrusting) return 'held'
  const waiting = isTrusting || texts.size === 0 ? undefined : missing.wait(intake.inForce(), texts)
  if (waiting) return holder.hold(texts, waiting)
  const old = intake.inForce()
  const fresh = await parse(texts)
  const verdict = isTrusting ? undefined : missing.judge(old, fresh)
  if (verdict) return holder.hold(texts, verdict)
  if (isTrusting || intake.takesWider) {
    take(fresh)
    tell(compare(old.texts, fresh, old), 'policies changed')
    return undefined
  }
  const summary = await compare(old.texts, fresh, old)
  if (summary.widened.length > 0) {
    const names = [...new Set(summary.widened.map(({ route }) => route))]
    return holder.hold(texts, { reason: 'widening', names: names.slice(0, mostNamedRoutes), untilMs: forever }, summary)
  }
  take(fresh)
  tell(Promise.resolve(summary), 'policies changed')
  return undefined
}

type Watched = Readonly<{ status: PolicyStatus }> & Pick<PolicyDependencies, 'log' | 'metrics'>

function watchPolicyFiles(
  directory: string,
  inUse: PolicyTexts,
  intake: Intake,
  { status, log, metrics }: Watched,
): Poll {
  const { holder, missing } = intake
  const readText = createCachedFileReader()
  return createFilesWatch<PolicyTexts>({
    inUse,
    read: () => readPolicyTexts(directory, readText),
    apply: (texts, isTrusting) => consider(texts, isTrusting, intake),
    onUnchanged: () => {
      missing.forget()
      if (!holder.isHolding()) return
      holder.release()
      log.info({}, 'policy files match the ones in force again')
    },
    noteOutcome: (isGood, error) => {
      if (!isGood) holder.release()
      metrics.notePolicyReload(isGood)
      status.noteOutcome(isGood, error)
    },
    log,
    messages: {
      failed: 'policy reload failed; the last good ones stay in force',
      reloaded: 'policies reloaded',
      restored: 'policy files match the ones in force again',
    },
  })
}

const forever = Number.POSITIVE_INFINITY

const lengthOf = (texts: PolicyTexts): number => [...texts.values()].reduce((sum, text) => sum + text.length, 0)

export const cutSummary = ({ gained, lost, widened }: PolicySummary) => ({
  gained: cut(gained),
  lost: cut(lost),
  widened: cut(widened.map(({ what }) => what)),
})

const cut = (names: readonly string[]): readonly string[] =>
  names.length <= mostNamedRoutes
    ? names
    : [...names.slice(0, mostNamedRoutes), `and ${names.length - mostNamedRoutes} more`]
