import type { Query, Statement } from './pool.ts'

/** The files of a table by their names, and the hash of both. */
export type KeptPolicyTable = Readonly<{
  fingerprint: string
  files: readonly (readonly [name: string, text: string])[]
}>

/** The table that was taken last from a folder; a replica whose folder has the same path takes part in it. */
export type PolicyTableStore = Readonly<{
  load: (directory: string) => Promise<KeptPolicyTable | undefined>
  save: (directory: string, table: KeptPolicyTable) => Promise<void>
}>

const loadPolicyTable: Statement = {
  name: 'load-policy-table',
  text: 'select fingerprint, files from sallyport_directory.policy_tables where directory = $1',
}

const savePolicyTable: Statement = {
  name: 'save-policy-table',
  text: `insert into sallyport_directory.policy_tables as kept (directory, fingerprint, files, taken_at)
    values ($1, $2, $3, now())
    on conflict (directory) do update
    set fingerprint = excluded.fingerprint, files = excluded.files, taken_at = excluded.taken_at
    where excluded.fingerprint <> kept.fingerprint`,
}

export const createPolicyTableStore = (query: Query): PolicyTableStore => ({
  load: async (directory) => {
    // Written below, and by nothing else.
    const [row] = await query<KeptPolicyTable>(loadPolicyTable, [directory])
    return row
  },
  save: async (directory, { fingerprint, files }) => {
    // As text: the driver would make a PostgreSQL array of a list.
    await query(savePolicyTable, [directory, fingerprint, JSON.stringify(files)])
  },
})
