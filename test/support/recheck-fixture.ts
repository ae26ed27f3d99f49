import type { Test } from 'tap'
import type {
  ClusterRecord,
  DirectoryFacts,
  FactKeys,
  KnownUser,
  TokenRecord,
} from '../../gateway/directory/directory.ts'
import { noLogouts } from '../../gateway/directory/logout.ts'
import type { Exchange } from '../../gateway/http/exchange.ts'
import type { ExpiryRules } from '../../gateway/stages/recheck/expiry.ts'
import { OpenExchanges, type RecheckOptions } from '../../gateway/stages/recheck/recheck.ts'
import { compileRoutes } from '../../gateway/stages/route/table.ts'
import { noConsultation, openWith, roles, route, tokenOf } from './open-exchange.ts'

const usual: ExpiryRules = { endAtExpiry: 'websocket', maxLifeMs: 3_600_000, onUnknown: 'keep', unknownMs: 300_000 }

/** Real re-decision about exchanges of tokens, in organizations of their own, with a directory and clocks of the test. */
export function createRecheckFixture(t: Test, rules: Partial<ExpiryRules> = {}, own: Partial<RecheckOptions> = {}) {
  const tokens = new Map<number, TokenRecord>()
  const users = new Map<string, KnownUser>()
  const clusters = new Map<number, ClusterRecord>()
  const reads: FactKeys[] = []
  const state = {
    tokens,
    users,
    clusters,
    reads,
    ended: [] as string[],
    table: compileRoutes([route]),
    wallStepMs: 0,
    policyReads: 0,
    rounds: 0,
    /** Whether changes are heard: then no fact grows old. */
    isProven: true,
    read: async (keys: FactKeys): Promise<DirectoryFacts> => ({
      users: new Map(users),
      tokens: new Map(
        keys.tokens.flatMap((id) => {
          const record = tokens.get(id)
          return record ? [[id, record] as const] : []
        }),
      ),
      findResource: () => undefined,
      agents: new Map(),
      clusters: new Map(clusters),
    }),
  }
  const monotonicMs = own.monotonicMs ?? (() => performance.now())
  const recheck = new OpenExchanges({
    hasEnded: noLogouts.hasEnded,
    logoutsUnreadSinceMs: noLogouts.unreadSinceMs,
    ...noConsultation,
    ...usual,
    ...rules,
    policy: () => {
      state.policyReads += 1
      return { table: state.table, roles }
    },
    readFacts: (keys) => {
      reads.push(keys)
      return state.read(keys)
    },
    knownAt: (readAtMs) => (state.isProven ? monotonicMs() : readAtMs),
    now: () => new Date(Date.now() + state.wallStepMs),
    monotonicMs,
    processId: 1,
    onRound: () => {
      state.rounds += 1
    },
    onEnded: ({ code }, { userId }) => state.ended.push(`${userId} ${code}`),
    onUnread: () => undefined,
    ...own,
  })
  t.teardown(recheck.stop)
  const open = (id: number, heard = recheck.countHeard(), isAnswered = false, more: Partial<Exchange> = {}) => {
    const record = tokens.get(id) ?? tokenOf(id)
    tokens.set(id, record)
    const seen = { resets: 0 }
    const reset = (): void => {
      seen.resets += 1
    }
    return { seen, entry: recheck.open(openWith(record, state.table, { isAnswered, reset, ...more }), heard) }
  }
  return { ...{ recheck, open }, state }
}

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
