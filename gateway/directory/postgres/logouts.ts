import { type Logout, type ReceivedLogout, receiptsOf } from '../logout.ts'
import type { Query, Statement } from './pool.ts'

export type LogoutStore = Readonly<{
  write: (logouts: readonly ReceivedLogout[]) => Promise<void>
  readSince: (since: number) => Promise<Readonly<{ horizon: number; logouts: readonly Logout[] }>>
  widenSubjects: (issuer: string, subjects: readonly string[], mostSessions: number) => Promise<void>
  widenIssuer: (issuer: string, most: number) => Promise<void>
  dropExpired: (nowSeconds: number) => Promise<void>
}>

export const writeLogouts: Statement = {
  name: 'write-logouts',
  text: `with told as (
      select * from unnest(
          $1::text[], $2::text[], $3::text[], $4::float8[], $5::float8[], $6::text[], $7::text[], $8::text[]
        )
        as told (issuer, subject, session, at, expires_at, credential, client_address, request_id)
    ), changed as (
      insert into sallyport_directory.logouts as stored (issuer, subject, session, at, expires_at, changed_in)
      select issuer, subject, session, to_timestamp(at), to_timestamp(expires_at), pg_current_xact_id()::text::bigint
      from told order by issuer, subject, session
      on conflict (issuer, subject, session) do update
      set at = greatest(stored.at, excluded.at), expires_at = greatest(stored.expires_at, excluded.expires_at),
        changed_in = excluded.changed_in
      where excluded.at > stored.at or excluded.expires_at > stored.expires_at
      returning issuer, subject, session
    )
    insert into sallyport_directory.audit_events
      (action, actor_id, credential, organization_id, subject_id, token_id, cluster_id, client_address, request_id)
    select 'sessions.signed_out', null, told.credential, null, (
        select user_id from sallyport_directory.user_identities known
        where known.issuer = told.issuer and known.subject = told.subject limit 1
      ), null, null, client_address, request_id
    from told join changed using (issuer, subject, session) where issuer not like '%${receiptsOf('')}'`,
}

/** The 100,000 of an issuer take twenty statements, each far within `database.queryTimeoutMs`. */
const pageSize = 5_000

export const readLogouts: Statement = {
  name: 'read-logouts',
  // Transactions from the horizon on may commit after this read, whatever they wrote before.
  text: `select now.horizon, found.issuer, found.subject, found.session,
      extract(epoch from found.at)::float8 as at, extract(epoch from found.expires_at)::float8 as expires_at
    from (select pg_snapshot_xmin(pg_current_snapshot())::text::float8 as horizon) now
    left join lateral (
      select issuer, subject, session, at, expires_at from sallyport_directory.logouts
      where changed_in >= $1::float8::bigint and (issuer, subject, session) > ($2::text, $3::text, $4::text)
        and expires_at > now()
      order by issuer, subject, session limit ${pageSize}
    ) found on true`,
}

const widen = (edge: string, session: string): string => `with edge as (${edge}), wide as (
      insert into sallyport_directory.logouts as stored (issuer, subject, session, at, expires_at, changed_in)
      select $1::text, subject, '', at, expires_at, pg_current_xact_id()::text::bigint from edge order by subject
      on conflict (issuer, subject, session) do update
      set at = greatest(stored.at, excluded.at), expires_at = greatest(stored.expires_at, excluded.expires_at),
        changed_in = excluded.changed_in
    )
    delete from sallyport_directory.logouts narrow using edge
    where narrow.issuer = $1::text and ${session} and narrow.at <= edge.at`

export const widenSubjects: Statement = {
  name: 'widen-logouts-of-subjects',
  text: widen(
    `select subject, max(at) as at, max(expires_at) as expires_at
      from (
        select subject, at, expires_at, row_number() over (partition by subject order by at desc) as place
        from sallyport_directory.logouts
        where issuer = $1::text and subject = any ($2::text[]) and subject <> '' and session <> ''
      ) ranked
      where place > $3::integer group by subject`,
    `narrow.subject = edge.subject and narrow.session <> ''`,
  ),
}

export const widenIssuer: Statement = {
  name: 'widen-logouts-of-issuer',
  text: widen(
    `select '' as subject, max(at) as at, max(expires_at) as expires_at
      from (
        select at, expires_at, row_number() over (order by at desc) as place
        from sallyport_directory.logouts where issuer = $1::text and subject || session <> ''
      ) ranked
      where place > $2::integer having count(*) > 0`,
    `narrow.subject || narrow.session <> ''`,
  ),
}

export const dropExpiredLogouts: Statement = {
  name: 'drop-expired-logouts',
  text: 'delete from sallyport_directory.logouts where expires_at < least(now(), to_timestamp($1::float8))',
}

type Row = {
  horizon: number
  issuer: string | null
  subject: string | null
  session: string | null
  at: number | null
  expires_at: number | null
}

export const createLogoutStore = (query: Query): LogoutStore => ({
  write: async (logouts) => {
    const column = <Value>(of: (logout: ReceivedLogout) => Value): readonly Value[] => logouts.map(of)
    await query(writeLogouts, [
      column(({ issuer }) => issuer),
      column(({ subject }) => subject),
      column(({ session }) => session),
      column(({ at }) => at),
      column(({ expiresAt }) => expiresAt),
      column(({ credential }) => credential),
      column(({ clientAddress }) => clientAddress),
      column(({ requestId }) => requestId),
    ])
  },
  readSince: async (since) => {
    let horizon: number | undefined
    const logouts: Logout[] = []
    for (let last: Logout | undefined; ; last = logouts.at(-1)) {
      const after = [last?.issuer ?? '', last?.subject ?? '', last?.session ?? '']
      const rows = await query<Row>(readLogouts, [since, ...after])
      horizon ??= rows[0]?.horizon
      logouts.push(...rows.flatMap(toLogout))
      if (rows.length < pageSize) return { horizon: horizon ?? since, logouts }
    }
  },
  widenSubjects: async (issuer, subjects, mostSessions) => {
    await query(widenSubjects, [issuer, subjects, mostSessions])
  },
  widenIssuer: async (issuer, most) => {
    await query(widenIssuer, [issuer, most])
  },
  dropExpired: async (nowSeconds) => {
    await query(dropExpiredLogouts, [nowSeconds])
  },
})

function toLogout({ issuer, subject, session, at, expires_at: expiresAt }: Row): readonly Logout[] {
  if (issuer === null || subject === null || session === null || at === null || expiresAt === null) return []
  return [{ issuer, subject, session, at: Math.floor(at), expiresAt }]
}
