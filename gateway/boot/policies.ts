import { describeBug, type Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { PolicyState } from '../observe/policy-state.ts'
import type { Policy } from '../policy/compile.ts'
import type { PolicyTexts } from '../policy/file.ts'
import { parsePolicyApart, readPolicyTexts, readPolicyTextsNow } from '../policy/load.ts'
import type { Configuration } from './configuration.ts'
import { createFileMemory } from './file-memory.ts'
import { keepPolicyLedger, type PolicyTextList } from './policy-ledger.ts'
import { createFilesWatch, repeat } from './watch-files.ts'

/** The policy in force, which follows its files until it is stopped. */
export type Policies = Readonly<{
  /** Looks now, and takes what it finds; resolves when the new table is in force, or the old one stays. */
  reload: () => Promise<void>
  stop: () => void
}>

/** The policies, and what there is to say of them. */
export type TablePolicies = Policies & Readonly<{ state: () => PolicyState; texts: () => PolicyTextList }>

type Surroundings = Readonly<{ log: Log; metrics: Metrics; now: () => Date }>

/** A change is taken once two looks in a row have found it: well within a second. */
export const lookEveryMs = 250

/** Hands over the table as it stands, and every later one; whole tables only. Throws `ConfigurationError` at the start. */
export async function startPolicies(
  configuration: Configuration,
  adopt: (policy: Policy) => void,
  { log, metrics, now }: Surroundings,
): Promise<TablePolicies> {
  const { directory } = configuration.policies
  const upstreams = new Set(Object.keys(configuration.upstreams))
  const ledger = keepPolicyLedger(directory, now)
  const take = async (texts: PolicyTexts): Promise<void> => {
    adopt(await parsePolicyApart(directory, texts, upstreams))
    ledger.noteTaken(texts)
    metrics.notePolicyLoad(now())
  }
  const readText = createFileMemory()
  const inUse = readPolicyTextsNow(directory)
  await take(inUse)
  metrics.notePolicyReload(true)
  const look = createFilesWatch<PolicyTexts>({
    inUse,
    read: () => readPolicyTexts(directory, readText),
    adopt: take,
    noteOutcome: (isGood, error) => {
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
  const onBug = (error: unknown): void => {
    log.error({ error: describeBug(error) }, 'the policies could not be looked after')
  }
  return {
    reload: () => look(true).catch(onBug),
    stop: repeat(look, lookEveryMs, onBug),
    state: ledger.state,
    texts: ledger.texts,
  }
}
