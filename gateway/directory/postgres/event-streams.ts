import type { Query, Statement } from './pool.ts'

export type EventStreamStore = Readonly<{
  claimQuestion: (transmitter: string, everySeconds: number) => Promise<ClaimedQuestion>
  noteVerified: (transmitter: string, askedAt: number) => Promise<void>
}>

export type ClaimedQuestion = Readonly<{
  askedAt: number | undefined
  verifiedAt: number | undefined
  isLastMissed: boolean
}>

export const claimQuestion: Statement = {
  name: 'claim-question',
  text: `with known as (
      select asked_at, verified_at from sallyport_directory.event_streams where transmitter = $1::text
    ), claimed as (
      insert into sallyport_directory.event_streams as stored (transmitter, asked_at)
      values ($1::text, date_trunc('second', now()))
      on conflict (transmitter) do update set asked_at = excluded.asked_at
      where stored.asked_at <= now() - make_interval(secs => $2::float8)
      returning extract(epoch from stored.asked_at)::float8 as asked_at
    )
    select (select asked_at from claimed) as asked_at,
      (select extract(epoch from verified_at)::float8 from known) as verified_at,
      coalesce((select verified_at is null or verified_at < asked_at from known), false) as is_last_missed`,
}

export const noteVerified: Statement = {
  name: 'note-verified',
  text: `update sallyport_directory.event_streams set verified_at = greatest(verified_at, to_timestamp($2::float8))
    where transmitter = $1::text`,
}

type Row = { asked_at: number | null; verified_at: number | null; is_last_missed: boolean }

export const createEventStreamStore = (query: Query): EventStreamStore => ({
  claimQuestion: async (transmitter, everySeconds) => {
    const [row] = await query<Row>(claimQuestion, [transmitter, everySeconds])
    const askedAt = row?.asked_at ?? undefined
    return {
      askedAt,
      verifiedAt: row?.verified_at ?? undefined,
      isLastMissed: askedAt !== undefined && row?.is_last_missed === true,
    }
  },
  noteVerified: async (transmitter, askedAt) => {
    await query(noteVerified, [transmitter, askedAt])
  },
})
