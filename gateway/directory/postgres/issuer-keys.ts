import type { Query, Statement } from './pool.ts'

type IssuerKeysRow = { keys: unknown; fetched_at: Date }

const loadIssuerKeys: Statement = {
  name: 'load-issuer-keys',
  text: 'select keys, fetched_at from sallyport_directory.issuer_keys where issuer = $1',
}

const saveIssuerKeys: Statement = {
  name: 'save-issuer-keys',
  // Replicas write as they please, and the latest fetch wins. A replica whose clock is ahead must not win for ever:
  // no time is taken from the future, and a row that has one (the server's clock was put back) gives way.
  text: `insert into sallyport_directory.issuer_keys as stored (issuer, keys, fetched_at)
    values ($1, $2, least($3::timestamptz, now()))
    on conflict (issuer) do update set keys = excluded.keys, fetched_at = excluded.fetched_at
    where excluded.fetched_at > stored.fetched_at or stored.fetched_at > now()`,
}

/** The last good key set of each issuer: public keys alone, for starts during an outage. */
export const createIssuerKeyStore = (query: Query) => ({
  load: async (issuer: string): Promise<Readonly<{ keys: unknown; fetchedAt: Date }> | undefined> => {
    const [row] = await query<IssuerKeysRow>(loadIssuerKeys, [issuer])
    return row && { keys: row.keys, fetchedAt: row.fetched_at }
  },
  save: async (issuer: string, keys: readonly object[], fetchedAt: Date): Promise<void> => {
    // As text: the driver would make a PostgreSQL array of a list.
    await query(saveIssuerKeys, [issuer, JSON.stringify(keys), fetchedAt])
  },
})
