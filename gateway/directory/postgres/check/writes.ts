import type pg from 'pg'
import { writeLogouts } from '../logouts.ts'
import type { Statement } from '../pool.ts'
import * as statements from '../statements.ts'
import { attempt } from './attempt.ts'
import { type DirectoryProblem, schema } from './problem.ts'

const findClosedSequence = `select format('grant usage on sequence %s to %I;', s.oid::regclass, current_user) as help
  from pg_rewrite r
  join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
  join pg_depend o on o.classid = 'pg_class'::regclass and o.refobjid = d.refobjid and o.deptype = 'a'
  join pg_class s on s.oid = o.objid
  where r.ev_class = to_regclass($1) and case when s.relkind = 'S' then not has_sequence_privilege(s.oid, 'usage') end limit 1`

/** Only a real write shows a missing default, a sequence without rights, or a row policy. The caller rolls it back. */
export async function tryWrites(client: pg.Client): Promise<readonly DirectoryProblem[]> {
  const problems: DirectoryProblem[] = []
  const act = async (where: string, deed: string, { text }: Statement, values: readonly unknown[]) => {
    const outcome = await attempt(client, text, values)
    if ('rows' in outcome) return outcome.rows[0]
    const closed = await client.query<{ help: string }>(findClosedSequence, [`${schema}.${where}`])
    problems.push({
      severity: 'error',
      code: 'refused-write',
      where: `${schema}.${where}`,
      message: `${deed} is refused: ${outcome.refusal}`,
      help:
        closed.rows[0]?.help ??
        'grant what is missing, or write by an "instead of" trigger that fills what the gateway does not know',
    })
    return undefined
  }
  const find = async (text: string): Promise<Readonly<Record<string, unknown>> | undefined> => {
    const found = await attempt(client, text)
    return 'rows' in found ? found.rows[0] : undefined
  }

  const name = 'sallyport-check'
  const user = await act('users', 'a first login', statements.createUser, [`${name}@invalid`, name, name, name, name])
  if (user) await act('users', 'the note of a verified address', statements.verifyEmail, [user.id, `${name}@invalid`])
  if (user) await act('user_identities', 'a first login', statements.createIdentity, [user.id, name, name])
  const member = await find(
    `select user_id, organization_id from ${schema}.role_assignments where organization_id is not null limit 1`,
  )
  if (member) {
    const values = [member.user_id, member.organization_id]
    await act('users', 'a switch of the organization', statements.switchOrganization, values)
  }
  const account = await find(`select id from ${schema}.users where user_type = 'client-managed' limit 1`)
  if (account) {
    const values = [account.id, name, '0'.repeat(64), '[]', null]
    const token = await act('auth_access_tokens', 'a mint', statements.mintToken, values)
    if (token) {
      await act('token_parents', 'a mint with a token', statements.noteParent, [token.id, token.id])
      if (member) {
        const values = [token.id, member.organization_id]
        await act('token_organizations', 'a mint', statements.noteOrganization, values)
      }
      await act('auth_access_tokens', "the note of a token's use", statements.noteTokenUses, [
        [token.id],
        [new Date(0)],
      ])
      await act('auth_access_tokens', 'a revocation', statements.revokeToken, [token.id, account.id, null])
    }
  }
  const cluster = await find(`select id, status from ${schema}.clusters limit 1`)
  if (cluster) {
    await act('clusters', 'a suspension', statements.setClusterStatus, [cluster.id, 'suspended'])
    await act('clusters', 'a heartbeat', statements.beatCluster, [cluster.id])
  }
  await act('logouts', 'a logout', writeLogouts, [[name], [name], [''], [0], [0], [name], [name], [name]])
  const deed = ['token.minted', null, 'command-line', null, null, null, null, 'command-line', name]
  await act('audit_events', 'the trail', statements.writeAudit, deed)
  return problems
}
