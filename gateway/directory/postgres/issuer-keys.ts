import type { Query, Statement } from './pool.ts'

type IssuerKeysRow = { keys: unknown; fetched_at: Date }

const loadIssuerKeys: Statement = {
  name: 'load-issuer-keys',
  text: 'select keys, fetched_at from sallyport_directory.issuer_keys where issuer = $1',
}

const saveIssuerKeys: Statement = {
  name: 'save-issuer-keys',
  // Replicas write independently, and the latest fetch wins. A replica whose clock is ahead must not win forever. So a
  // future time becomes now, and a stored future time (after the server's clock was set back) is replaced.
  text: `insert into sallyport_directory.issuer_keys as stored (issuer, keys, fetched_at)
    values ($1, $2, least($3::timestamptz, now()))
    on conflict (issuer) do update set keys = excluded.keys, fetched_at = excluded.fetched_at
    where excluded.fetched_at > stored.fetched_at or stored.fetched_at > now()`,
}

export const createIssuerKeyStore = (query: Query) => ({
  load: async (issuer: string): Promise<Readonly<{ keys: unknown; fetchedAt: Date }> | undefined> => {
    const [row] = await query<IssuerKeysRow>(loadIssuerKeys, [issuer])
    return row && { keys: row.keys, fetchedAt: row.fetched_at }
  },
  save: async (issuer: string, keys: readonly object[], fetchedAt: Date): Promise<void> => {
    // As text, because the driver would turn a list into a PostgreSQL array.
    await query(saveIssuerKeys, [issuer, JSON.stringify(keys), fetchedAt])
  },
})
