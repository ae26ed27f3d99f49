export type Server = Readonly<{
  /** Id of the data directory, shared by a primary and its standbys. Null if the role may not read it. */
  system: string | null
  timeline: number | null
  startedAt: string
  isStandby: boolean
  position: bigint
}>

export class StandbyLagError extends Error {
  override readonly name = 'StandbyLagError'
  readonly code = standbyLag
}

export const standbyLag = 'ERR_STANDBY_LAG'

/** With a second of belief, an answer is at most two seconds old (docs/explanation/decisions/0003). */
export const lagLimitMs = 1_000

export type Servers = Readonly<{
  noteListening: (server: Server | undefined) => void
  notePosition: (atMs: number, server: Server) => void
  wantsPositions: () => boolean
  requireRecent: (server: Server) => void
  noteAnswer: (server: Server) => void
  current: () => Server | undefined
  lagMs: () => number | undefined
}>

export type ServersOptions = Readonly<{
  monotonicMs: () => number
  isSplit: boolean
  hearsElsewhere: boolean
  onForeign: () => void
}>

type Sample = Readonly<{ atMs: number; position: bigint }>

export function createServers({ monotonicMs, isSplit, hearsElsewhere, onForeign }: ServersOptions): Servers {
  let listening: Server | undefined
  let current: Server | undefined
  let hasSeenStandby = false
  let samples: Sample[] = []

  const isFollowed = (server: Server): boolean =>
    server.isStandby &&
    listening?.isStandby === false &&
    listening.system !== null &&
    listening.system === server.system &&
    listening.timeline === server.timeline
  const isProvable = (server: Server): boolean => {
    if (server.isStandby) return false
    if (!listening) return hearsElsewhere
    return listening.system === server.system && listening.startedAt === server.startedAt
  }
  const lagOf = (server: Server): number | undefined => {
    if (!isFollowed(server) || samples.length === 0) return undefined
    const nowMs = monotonicMs()
    const reached = samples.findLast(({ position }) => position <= server.position)
    return nowMs - (reached ?? samples[0] ?? { atMs: nowMs }).atMs
  }
  return {
    noteListening: (server) => {
      listening = server
      samples = []
    },
    notePosition: (atMs, server) => {
      listening = server
      samples.push({ atMs, position: trimPageHeader(server.position) })
      while (samples[1] && samples[1].atMs <= monotonicMs() - lagLimitMs) samples.shift()
    },
    wantsPositions: () => isSplit || hasSeenStandby,
    requireRecent: (server) => {
      if (!isFollowed(server)) return
      const [oldest] = samples
      if (oldest && oldest.position > server.position)
        throw new StandbyLagError('PostgreSQL at database.url is a standby, and too far behind its primary')
    },
    noteAnswer: (server) => {
      current = server
      hasSeenStandby ||= server.isStandby
      if (!isProvable(server)) onForeign()
    },
    current: () => current,
    lagMs: () => (current?.isStandby ? lagOf(current) : undefined),
  }
}

const pageBytes = 8_192n

/**
 * Sizes of the header of a log page, and of the first one of a segment (XLogPageHeaderData, XLogLongPageHeaderData).
 */
const headerBytes: ReadonlySet<bigint> = new Set([24n, 40n])

/**
 * If the last record filled its page, the primary reports the position after the next page's header, and the standby
 * the end of the record. Without this, an idle standby would never seem to have caught up.
 */
function trimPageHeader(position: bigint): bigint {
  const inPage = position % pageBytes
  return headerBytes.has(inPage) ? position - inPage : position
}

type Row = {
  system: string | null
  timeline: number | null
  started_at: string
  is_standby: boolean
  position: string | null
}

type Parts = Readonly<{ system: string; timeline: string; position: string }>

const describe = ({
  system,
  timeline,
  position,
}: Parts): string => `select ${system} as system, ${timeline} as timeline,
    (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint::text as started_at,
    pg_is_in_recovery() as is_standby, ${position} as position`

const position = `(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_insert_lsn() end
  - '0/0')::text`

const nothing = { system: 'null::text', timeline: 'null::int' }

const descriptions: readonly [string, ...string[]] = [
  describe({
    system: '(select system_identifier::text from pg_control_system())',
    // In the control file a standby's timeline may be from its last restart point. Until the next one it looks older,
    // and positions are not compared.
    timeline: `case when pg_is_in_recovery() then (select greatest(c.timeline_id, r.min_recovery_end_timeline)
        from pg_control_checkpoint() c, pg_control_recovery() r)
      else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int end`,
    position,
  }),
  describe({ ...nothing, position }),
  // Services with another log storage have these functions, but they fail.
  describe({ ...nothing, position: 'null::text' }),
]

export type ServerQuestion = Readonly<{
  text: () => string
  reduce: (asked: string, error: unknown) => boolean
}>

export function createQuestion(): ServerQuestion {
  let at = 0
  return {
    text: () => descriptions[at] ?? descriptions[0],
    reduce: (asked, error) => {
      const { code } = error as { code?: unknown }
      if (typeof code !== 'string' || !refusals.test(code)) return false
      if (asked !== descriptions[at]) return true
      if (at + 1 === descriptions.length) return false
      at += 1
      return true
    },
  }
}

/** Feature not supported (0A), object not in the required state (55), missing right or function (42). */
const refusals = /^(?:0A|55|42)...$/

type Asker = Readonly<{ query: (text: string) => Promise<Readonly<{ rows: readonly unknown[] }>> }>

export async function askServer(client: Asker, question: ServerQuestion): Promise<Server> {
  for (;;) {
    const asked = question.text()
    try {
      return readServer((await client.query(asked)).rows)
    } catch (error) {
      if (!question.reduce(asked, error)) throw error
    }
  }
}

export function readServer(rows: readonly unknown[]): Server {
  const [row] = rows as readonly Row[] // the columns of `describe`
  if (!row) throw new Error('the server does not describe itself')
  return {
    system: row.system,
    timeline: row.timeline,
    startedAt: row.started_at,
    isStandby: row.is_standby,
    position: BigInt(row.position ?? 0),
  }
}
