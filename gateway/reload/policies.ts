import { isDeepStrictEqual } from 'node:util'
import { type PolicySummary, summarizeChange } from '../analyze/diff/summarize.ts'
import { summarizeApart } from '../analyze/diff/summarize-apart.ts'
import type { Configuration } from '../configuration/configuration.ts'
import type { PolicyTableStore } from '../directory/postgres/policy-tables.ts'
import { describeBug, describeError, type Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { PolicyState } from '../observe/policy-state.ts'
import type { Policy } from '../policy/compile.ts'
import type { PolicyTexts } from '../policy/file.ts'
import { parsePolicyApart, readPolicyTexts, readPolicyTextsNow } from '../policy/load.ts'
import { createFileMemory } from './file-memory.ts'
import { createMissingFiles, findPlaces, type HoldReason, type Table } from './held-policies.ts'
import { keepPolicyLedger, type PolicyTextList, takeFingerprint } from './policy-ledger.ts'
import { createFilesWatch, repeat } from './watch-files.ts'

/** The policy in force, which follows its files until it is stopped. */
export type Policies = Readonly<{
  /** Looks now, and takes what it finds, held back or not; resolves when it is in force, or the old table stays. */
  reload: () => Promise<void>
  stop: () => void
}>

/** The policies, and what there is to say of them. */
export type TablePolicies = Policies & Readonly<{ state: () => PolicyState; texts: () => PolicyTextList }>

type Surroundings = Readonly<{
  log: Log
  metrics: Metrics
  now: () => Date
  monotonicMs: () => number
  tables: PolicyTableStore
}>

/** A change is taken once two looks in a row have found it: well within a second. */
export const lookEveryMs = 250

/** The table of before is asked for so often while the database does not answer. */
const keepEveryMs = 30_000

/** Of each list in a line of the log, and on the console. */
const namedAtMost = 50

/** In characters of both tables: some 25 routes each. Cold, 50 of them took 73 ms, in which no request would be answered. */
const compareApartFrom = 8_192

/** Hands over the table as it stands, and every later one; whole tables only. Throws `ConfigurationError` at the start. */
export async function startPolicies(
  configuration: Configuration,
  adopt: (policy: Policy) => void,
  { log, metrics, now, monotonicMs, tables }: Surroundings,
): Promise<TablePolicies> {
  const { directory } = configuration.policies
  const upstreams = new Set(Object.keys(configuration.upstreams))
  const ledger = keepPolicyLedger(directory, now)
  const missing = createMissingFiles(directory, monotonicMs)
  const parse = async (texts: PolicyTexts): Promise<Table> => ({
    policy: await parsePolicyApart(directory, texts, upstreams),
    texts,
    places: await findPlaces(directory, texts),
  })
  const compare = async (old: PolicyTexts, fresh: Table, known?: Table): Promise<PolicySummary> =>
    known && lengthOf(old) + lengthOf(fresh.texts) < compareApartFrom
      ? summarizeChange(known.policy, fresh.policy)
      : summarizeApart({ directory, old, fresh: fresh.texts, upstreams })

  /** Names what changed; a comparison that fails takes nothing back. */
  const tell = (comparing: Promise<PolicySummary>, message: string): void => {
    comparing.then(
      (summary) => {
        const named = cutSummary(summary)
        metrics.notePolicyChange(summary)
        ledger.noteChange(named)
        log[summary.widened.length > 0 ? 'warn' : 'info'](named, message)
      },
      (error: unknown) => log.error({ error: describeError(error) }, 'policies could not be compared'),
    )
  }
  let inForce: Table
  const take = (table: Table): void => {
    adopt(table.policy)
    inForce = table
    ledger.noteTaken(table.texts)
    metrics.notePolicyLoad(now())
    release()
    keep.due()
  }
  let held: (HoldReason & Readonly<{ texts: PolicyTexts }>) | undefined
  const release = (): void => {
    if (!held) return
    held = undefined
    missing.forget()
    metrics.notePolicyHeld(false)
    ledger.noteHeld(undefined)
  }
  const hold = (texts: PolicyTexts, verdict: HoldReason, summary?: PolicySummary): 'held' => {
    const isNew = held?.untilMs !== verdict.untilMs || !isDeepStrictEqual(held.texts, texts)
    held = { ...verdict, texts }
    metrics.notePolicyHeld(true)
    const { reason, names } = verdict
    const fields = { reason, names, ...(summary && cutSummary(summary)) }
    ledger.noteHeld(fields)
    if (isNew) log.warn(fields, 'policies held back; the table before goes on')
    return 'held'
  }
  const consider = async (texts: PolicyTexts, isTrusting: boolean): Promise<'held' | undefined> => {
    const isKnown = held && isDeepStrictEqual(held.texts, texts) && monotonicMs() < held.untilMs
    if (isKnown && !isTrusting) return 'held'
    const waiting = isTrusting || texts.size === 0 ? undefined : missing.wait(inForce, texts)
    if (waiting) return hold(texts, waiting)
    const old = inForce
    const fresh = await parse(texts)
    const verdict = isTrusting ? undefined : missing.judge(old, fresh)
    if (verdict) return hold(texts, verdict)
    if (isTrusting || configuration.reload.onWidening === 'allow') {
      take(fresh)
      tell(compare(old.texts, fresh, old), 'policies changed')
      return undefined
    }
    const summary = await compare(old.texts, fresh, old)
    if (summary.widened.length > 0) {
      const names = [...new Set(summary.widened.map(({ route }) => route))]
      return hold(texts, { reason: 'widening', names: names.slice(0, namedAtMost), untilMs: forever }, summary)
    }
    take(fresh)
    tell(Promise.resolve(summary), 'policies changed')
    return undefined
  }
  const onBug = (error: unknown): void => {
    log.error({ error: describeBug(error) }, 'the policies could not be looked after')
  }

  let kept: string | undefined
  let isKeeping = false
  let isStart = true
  /** Puts the table in force where the next start finds it; the first time, says what has changed since the last one. */
  const keepTable = async (): Promise<void> => {
    const { texts } = inForce
    const table = { fingerprint: takeFingerprint([...texts]), files: [...texts] }
    if (isKeeping || kept === table.fingerprint) return
    isKeeping = true
    try {
      const before = isStart ? await tables.load(directory) : undefined
      if (before && before.fingerprint !== table.fingerprint)
        tell(compare(new Map(before.files), { ...inForce, texts }), 'policies changed since the last start')
      isStart = false
      await tables.save(directory, table)
      kept = table.fingerprint
    } catch {
      // Requests tell of a database that is down; here it is tried again.
    } finally {
      isKeeping = false
    }
  }
  const keep = { due: (): void => void keepTable().catch(onBug) }

  const texts = readPolicyTextsNow(directory)
  take(await parse(texts))
  metrics.notePolicyReload(true)
  const readText = createFileMemory()
  const look = createFilesWatch<PolicyTexts>({
    inUse: texts,
    read: () => readPolicyTexts(directory, readText),
    adopt: consider,
    onUnchanged: () => {
      missing.forget()
      if (!held) return
      release()
      log.info({}, 'the policies in force are back in their files')
    },
    noteOutcome: (isGood, error) => {
      // What was held back is not in the files any more.
      if (!isGood) release()
      metrics.notePolicyReload(isGood)
      ledger.noteOutcome(isGood, error)
    },
    log,
    sentences: {
      failed: 'policies could not be reloaded; the last good table goes on',
      reloaded: 'policies reloaded',
      restored: 'the policies in force are back in their files',
    },
  })
  const stops = [repeat(look, lookEveryMs, onBug), repeat(keepTable, keepEveryMs, onBug)]
  return {
    reload: () => look(true).catch(onBug),
    stop: () => {
      for (const stop of stops) stop()
    },
    state: ledger.state,
    texts: ledger.texts,
  }
}

const forever = Number.POSITIVE_INFINITY

const lengthOf = (texts: PolicyTexts): number => [...texts.values()].reduce((sum, text) => sum + text.length, 0)

const cutSummary = ({ gained, lost, widened }: PolicySummary) => ({
  gained: cut(gained),
  lost: cut(lost),
  widened: cut(widened.map(({ what }) => what)),
})

const cut = (names: readonly string[]): readonly string[] =>
  names.length <= namedAtMost ? names : [...names.slice(0, namedAtMost), `and ${names.length - namedAtMost} more`]
