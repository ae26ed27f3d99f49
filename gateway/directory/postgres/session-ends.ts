import type { AuditContext, SessionEnd, SessionFilter } from '../directory.ts'
import { writeAudit } from './audit.ts'
import type { Database, Statement } from './pool.ts'

export type SessionEndStore = Readonly<{
  add: (filter: SessionFilter, audit: AuditContext) => Promise<number>
  readRecent: () => Promise<readonly SessionEnd[]>
}>

const addSessionEnd: Statement = {
  name: 'add-session-end',
  text: `insert into sallyport_directory.session_ends (user_id, organization_id, token_id, route, request_id)
    values ($1, $2, $3, $4, $5) returning id`,
}

export const readSessionEnds: Statement = {
  name: 'read-session-ends',
  // A replica that hears nothing reads once a second. After ten minutes it has more to worry about than an old order.
  text: `select id, user_id, organization_id, token_id, route, request_id,
      (extract(epoch from clock_timestamp() - ordered_at) * 1000)::float8 as age_ms
    from sallyport_directory.session_ends where ordered_at > now() - interval '10 minutes'
    order by id desc limit 1000`,
}

type Row = {
  id: number
  user_id: number | null
  organization_id: number | null
  token_id: number | null
  route: string | null
  request_id: string | null
  age_ms: number
}

export const createSessionEndStore = ({ query, transaction }: Database): SessionEndStore => ({
  add: (filter, audit) =>
    transaction(async (within) => {
      const { userId, organizationId, tokenId, route, requestId } = filter
      const values = [userId, organizationId, tokenId, route, requestId]
      const [row] = await within<Pick<Row, 'id'>>(addSessionEnd, values)
      if (!row) throw new Error('the database stored no order')
      await writeAudit(within, { action: 'sessions.ended', subjectId: userId, tokenId }, { ...audit, organizationId })
      return row.id
    }),
  readRecent: async () => {
    const rows = await query<Row>(readSessionEnds, [])
    return rows.map((row) => ({
      id: row.id,
      ageMs: row.age_ms,
      filter: {
        userId: row.user_id,
        organizationId: row.organization_id,
        tokenId: row.token_id,
        route: row.route,
        requestId: row.request_id,
      },
    }))
  },
})
