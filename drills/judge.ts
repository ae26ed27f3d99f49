import type { Drill, Finding } from './drill.ts'
import type { FlowName, Flows } from './flows.ts'
import type { Sample } from './load.ts'

/** A drill as it was played; times are of `performance.now()`. */
export type Played = Readonly<{
  samples: readonly Sample[]
  startedMs: number
  beganMs: number
  endedMs: number
  /** The `x-request-id` of what reached the upstream. */
  reached: readonly string[]
  holdings: Readonly<Record<'before' | 'highest' | 'after', Holdings>>
}>

/** Resources of the gateway's processes; `connections` are those of the load. */
export type Holdings = Readonly<{ rssBytes: number; descriptors: number; connections: number }>

/** The strictness of a judgment: on a machine with other work to do, times say little. */
export type Rigor = Readonly<{
  /** Whether the slowest answers of flows that must not notice are compared with those before. */
  judgesLatency: boolean
  /** Every other time limit is multiplied by this. */
  patience: number
}>

/** A p99 below this passes, however fast the answers before the fault were. */
const floorMs = 10

const growthBytes = 32 * 1024 * 1024
/** Descriptors beside the connections of the load, and one to the upstream for each of them. */
const growthDescriptors = 32

export type Phase = 'before' | 'during' | 'after'

export type FlowFigures = Readonly<{
  flow: FlowName
  phase: Phase
  count: number
  statuses: ReadonlyMap<number, number>
  p99Ms: number
  longestMs: number
}>

/** The figures of each flow in each phase; the moments of recovery count as `after`. */
export function summarize(flows: Flows, { samples, startedMs, beganMs, endedMs }: Played): readonly FlowFigures[] {
  // An answer that was under way when the fault began has met it.
  const phaseOf = ({ dueMs, tookMs }: Sample): Phase =>
    dueMs >= endedMs ? 'after' : dueMs + tookMs >= beganMs ? 'during' : 'before'
  return (Object.keys(flows) as FlowName[]).flatMap((flow) =>
    (['before', 'during', 'after'] as const).map((phase) => {
      const own = samples.filter((one) => one.flow === flow && one.dueMs >= startedMs && phaseOf(one) === phase)
      const times = own.map(({ tookMs }) => tookMs).sort((one, other) => one - other)
      const statuses = new Map<number, number>()
      for (const { status } of own) statuses.set(status, (statuses.get(status) ?? 0) + 1)
      return {
        flow,
        phase,
        count: own.length,
        statuses,
        p99Ms: times[Math.min(times.length - 1, Math.floor(times.length * 0.99))] ?? 0,
        longestMs: times.at(-1) ?? 0,
      }
    }),
  )
}

/** Compares the samples of a drill with its expectations. */
export function judge(drill: Drill, flows: Flows, played: Played, rigor: Rigor): readonly Finding[] {
  const figures = summarize(flows, played)
  const find = (flow: FlowName, phase: Phase) => figures.find((one) => one.flow === flow && one.phase === phase)
  const findings: Finding[] = []
  const refusals = new Map<FlowName, number>()
  for (const flow of Object.keys(flows) as FlowName[]) {
    const [before, during] = [find(flow, 'before'), find(flow, 'during')]
    if (!before || !during) continue
    const { usual } = flows[flow]
    findings.push(judgeStatuses(`${flow} before`, before, new Set(usual)))
    const expected = drill.expect?.[flow]
    if (expected) {
      findings.push(judgeStatuses(`${flow} during`, during, new Set([...usual, ...expected.statuses])))
      findings.push(judgeTime(`${flow} answers during`, during.longestMs, expected.withinMs * rigor.patience))
      const refused = [...during.statuses].reduce(
        (sum, [status, count]) => sum + (usual.includes(status) ? 0 : count),
        0,
      )
      refusals.set(flow, refused)
      const { share = 1 } = expected
      const most = Math.ceil(during.count * share)
      if (share < 1)
        findings.push({ check: `${flow} refused`, seen: `${refused}`, limit: `<= ${most}`, isMet: refused <= most })
    } else {
      findings.push(judgeStatuses(`${flow} during`, during, new Set(usual)))
      if (rigor.judgesLatency)
        findings.push(judgeTime(`${flow} p99 during`, during.p99Ms, Math.max(2 * before.p99Ms, floorMs)))
    }
  }
  if (refusals.size > 0) {
    // If the fault had no effect, the other findings prove nothing.
    const seen = [...refusals.values()].reduce((sum, count) => sum + count, 0)
    const isSlower = [...refusals.keys()].some((flow) => {
      const [before, during] = [find(flow, 'before'), find(flow, 'during')]
      return before && during && during.longestMs > 1.5 * before.longestMs
    })
    const isMet = seen > 0 || (drill.isMild === true && isSlower)
    findings.push({
      check: 'the fault is felt',
      seen: `${seen} refused`,
      limit: drill.isMild ? 'slower' : '> 0',
      isMet,
    })
  }
  findings.push(...judgeAcceptance(flows, played), ...judgeRecovery(drill, flows, played, rigor))
  findings.push(...judgeHoldings(played))
  return findings
}

function judgeStatuses(check: string, { count, statuses }: FlowFigures, allowed: ReadonlySet<number>): Finding {
  const seen = [...statuses].map(([status, times]) => `${status} x ${times}`).join(', ')
  const isMet = count > 0 && [...statuses.keys()].every((status) => allowed.has(status))
  return { check, seen: seen || 'nothing', limit: [...allowed].join(' '), isMet }
}

const judgeTime = (check: string, seenMs: number, limitMs: number): Finding => ({
  check,
  seen: `${seenMs.toFixed(1)} ms`,
  limit: `<= ${limitMs.toFixed(1)} ms`,
  isMet: seenMs <= limitMs,
})

/** At no time may a forbidden request be answered well, or reach the upstream. */
function judgeAcceptance(flows: Flows, { samples, reached }: Played): readonly Finding[] {
  const isForbidden = (flow: string): boolean =>
    Object.entries(flows).some(([name, one]) => name === flow && one.isForbidden)
  const accepted = samples.filter(({ flow, status }) => isForbidden(flow) && status >= 200 && status < 400).length
  const arrived = reached.filter((id) => isForbidden(id.split('-')[0] ?? '')).length
  return [
    { check: 'forbidden requests accepted', seen: `${accepted}`, limit: '0', isMet: accepted === 0 },
    { check: 'forbidden requests at the upstream', seen: `${arrived}`, limit: '0', isMet: arrived === 0 },
    // If no request arrives at all, the finding above proves nothing.
    { check: 'requests at the upstream', seen: `${reached.length}`, limit: '> 0', isMet: reached.length > 0 },
  ]
}

/** Judges the time from the end of the fault to the last request that was not answered as usual. */
function judgeRecovery(
  { goodAfterMs = 2_000 }: Drill,
  flows: Flows,
  { samples, endedMs }: Played,
  { patience }: Rigor,
): readonly Finding[] {
  const bad = samples.filter(({ flow, dueMs, status }) => dueMs >= endedMs && !flows[flow].usual.includes(status))
  const lastMs = bad.reduce((last, { dueMs }) => Math.max(last, dueMs), endedMs)
  return [judgeTime('good again after', lastMs - endedMs, goodAfterMs * patience)]
}

function judgeHoldings({ holdings: { before, highest, after } }: Played): readonly Finding[] {
  const tell = (check: string, seen: number, limit: number, unit: (value: number) => string): Finding => ({
    check,
    seen: unit(seen),
    limit: `<= ${unit(limit)}`,
    isMet: seen <= limit,
  })
  const mebibytes = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`
  return [
    tell('memory at most', highest.rssBytes, before.rssBytes + growthBytes, mebibytes),
    tell(
      'descriptors afterwards',
      after.descriptors,
      before.descriptors + 2 * Math.max(0, after.connections - before.connections) + growthDescriptors,
      String,
    ),
  ]
}
