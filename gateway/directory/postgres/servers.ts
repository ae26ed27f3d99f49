/** The server behind a connection, at one moment. */
export type Server = Readonly<{
  /** Of the data directory: a primary and its standbys have the same. Null where the role may not know it. */
  system: string | null
  timeline: number | null
  /** In microseconds since the epoch; tells servers of one system apart. */
  startedAt: string
  isStandby: boolean
  /** Of a primary, what was written to its log so far; of a standby, what it has replayed. In bytes. */
  position: bigint
}>

/** A standby that is further behind its primary than answers may be. */
export class StandbyLagError extends Error {
  override readonly name = 'StandbyLagError'
  readonly code = standbyLag
}

/** The code of `StandbyLagError`. */
export const standbyLag = 'ERR_STANDBY_LAG'

/** How far behind its primary a standby's answers may be. */
export const lagLimitMs = 1_000

/** What is known of the servers that answer, and of the one that tells of changes. */
export type Servers = Readonly<{
  /** Told of the server at the other end of the listening connection; undefined when that is lost. */
  noteListening: (server: Server | undefined) => void
  /** What the listening server had written after `atMs`. */
  notePosition: (atMs: number, server: Server) => void
  /** Whether positions of the listening server are of use. */
  wantsPositions: () => boolean
  /** Throws `StandbyLagError` where this server is known not to have what its primary had a second ago. */
  requireRecent: (server: Server) => void
  /** Told after each answer of a server. */
  noteAnswer: (server: Server) => void
  /** The server of the last answer. */
  current: () => Server | undefined
  /** How old the last standby's answer may have been; undefined where that is not known, or of a primary. */
  lagMs: () => number | undefined
}>

export type ServersOptions = Readonly<{
  monotonicMs: () => number
  /** Whether answers may be asked of other servers than tell of changes. */
  isSplit: boolean
  /** Whether changes are heard in another way, whichever primary answers. */
  hearsElsewhere: boolean
  /** A server answered whose facts the listening server's silence says nothing about. */
  onForeign: () => void
}>

type Sample = Readonly<{ atMs: number; position: bigint }>

export function createServers({ monotonicMs, isSplit, hearsElsewhere, onForeign }: ServersOptions): Servers {
  let listening: Server | undefined
  let current: Server | undefined
  let hasSeenStandby = false
  let samples: Sample[] = []

  /** Whether one of the two follows the other, so that their positions compare. */
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
    // At least that.
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
      // One that is older than the limit is kept, to compare with.
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

/** Of a page of the log, and of the first one of a segment (XLogPageHeaderData, XLogLongPageHeaderData). */
const headerBytes: ReadonlySet<bigint> = new Set([24n, 40n])

/**
 * Where the last record filled its page, the primary names the place behind the next page's header, and the standby the
 * end of the record: in an idle system that would never be reached.
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
    // A standby's in the control file may be that of its last restart point, and so older than the one it follows: then
    // its positions are not compared, until the next one.
    timeline: `case when pg_is_in_recovery() then (select greatest(c.timeline_id, r.min_recovery_end_timeline)
        from pg_control_checkpoint() c, pg_control_recovery() r)
      else ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int end`,
    position,
  }),
  describe({ ...nothing, position }),
  // Services that keep their log elsewhere have functions for it that fail.
  describe({ ...nothing, position: 'null::text' }),
]

/** The question after a server, as much of it as the role may ask and the server can answer. */
export type ServerQuestion = Readonly<{
  /** One statement without values. */
  text: () => string
  /** Asks for less from now on, where a text failed by its own fault; says whether asking again may help. */
  reduce: (asked: string, error: unknown) => boolean
}>

export function createQuestion(): ServerQuestion {
  let at = 0
  return {
    text: () => descriptions[at] ?? descriptions[0],
    reduce: (asked, error) => {
      const { code } = error as { code?: unknown }
      if (typeof code !== 'string' || !refusals.test(code)) return false
      // Another connection has found out meanwhile.
      if (asked !== descriptions[at]) return true
      if (at + 1 === descriptions.length) return false
      at += 1
      return true
    },
  }
}

/** A feature that is not there (0A), a state that does not allow it (55), a right or a function that is missing (42). */
const refusals = /^(?:0A|55|42)...$/

type Asker = Readonly<{ query: (text: string) => Promise<Readonly<{ rows: readonly unknown[] }>> }>

/** Asks a server about itself, on a connection that is in no transaction. */
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

/** Reads the answer to a question. */
export function readServer(rows: readonly unknown[]): Server {
  const [row] = rows as readonly Row[] // as `describe` asks
  if (!row) throw new Error('the server does not describe itself')
  return {
    system: row.system,
    timeline: row.timeline,
    startedAt: row.started_at,
    isStandby: row.is_standby,
    position: BigInt(row.position ?? 0),
  }
}
