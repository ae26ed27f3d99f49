import type { Query, Statement } from './pool.ts'

export type KeptPolicyTable = Readonly<{
  fingerprint: string
  files: readonly (readonly [name: string, text: string])[]
}>

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
    const [row] = await query<KeptPolicyTable>(loadPolicyTable, [directory])
    return row
  },
  save: async (directory, { fingerprint, files }) => {
    // As text, because the driver would turn a list into a PostgreSQL array.
    await query(savePolicyTable, [directory, fingerprint, JSON.stringify(files)])
  },
})
