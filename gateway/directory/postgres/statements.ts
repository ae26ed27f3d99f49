import type { Statement } from './pool.ts'
import { longestLine } from './token-line.ts'

// All statements use the views of the schema `sallyport_directory`, which read the gateway's own tables or those of an
// adopted database (docs/guides/adopt-a-database.md). relations.ts lists the columns of each view.

/** Read from the row as JSON, because a view without the column must read as false and not fail. */
const isEmailVerified = `coalesce(to_jsonb(u) -> 'email_verified' = 'true'::jsonb, false)`

const externalId = (record: string): string => `to_jsonb(${record}) ->> 'external_id'`

/**
 * Compares addresses without case in ASCII alone. The column's own collation or citext may fold other letters into
 * ASCII, such as the Kelvin sign into "k".
 */
const foldAddress = (address: string): string => `lower(${address}::text collate "C")`

const userJson = `
  json_build_object(
    'id', u.id, 'externalId', ${externalId('u')}, 'email', u.email, 'emailVerified', ${isEmailVerified}, 'username', u.username, 'firstName', u.first_name, 'lastName', u.last_name,
    'fullName', u.full_name, 'userType', u.user_type, 'currentOrganizationId', u.current_organization_id,
    'roles', coalesce((
      select json_agg(
        json_build_object(
          'id', r.id, 'role', r.role,
          'organization', case when o.id is null then null else
            json_build_object('id', o.id, 'externalId', ${externalId('o')}, 'slug', o.slug, 'accountType', o.account_type) end
        ) order by o.created_at, o.id, r.id
      )
      from sallyport_directory.role_assignments r
      left join sallyport_directory.organizations o on o.id = r.organization_id
      -- A role in an organization that the view hides does not count.
      where r.user_id = u.id and (r.organization_id is null or o.id is not null)
    ), '[]'::json)
  )`

export const findByIdentity: Statement = {
  name: 'find-by-identity',
  text: `select ${userJson} as user
    from sallyport_directory.user_identities i join sallyport_directory.users u on u.id = i.user_id
    where i.issuer = $1 and i.subject = $2`,
}

export const findByIdentities: Statement = {
  name: 'find-by-identities',
  text: `select i.issuer, i.subject, ${userJson} as user
    from unnest($1::text[], $2::text[]) as k (issuer, subject)
    join sallyport_directory.user_identities i on i.issuer = k.issuer and i.subject = k.subject
    join sallyport_directory.users u on u.id = i.user_id`,
}

/** Selects one row by its id. With the limit, no plan reads the whole table, whatever the estimates. */
const lookUp = (columns: string, relation: string, condition: string): string =>
  `lateral (select ${columns} from sallyport_directory.${relation} x where ${condition} limit 1)`

/**
 * The ancestors of a token, nearest first, as JSON; null for most tokens. An ancestor without an owner who may have
 * tokens counts as revoked.
 */
const ancestorsJson = (id: string): string => `(
  with recursive line (id, depth) as (
    select p.parent_id, 1 from sallyport_directory.token_parents p where p.token_id = ${id}
    union all
    select p.parent_id, line.depth + 1
    from line cross join ${lookUp('parent_id', 'token_parents', 'x.token_id = line.id')} p
    where line.depth <= ${longestLine}
  )
  select json_agg(json_build_object(
    'id', line.id, 'userId', a.tokenable_id, 'isAlive', owner.id is not null, 'expiresAt', a.expires_at
  ) order by line.depth)
  from line
  left join ${lookUp('tokenable_id, expires_at', 'auth_access_tokens', 'x.id = line.id')} a on true
  left join ${lookUp('id', 'users', "x.id = a.tokenable_id and x.user_type = 'client-managed'")} owner on true
)`

const tokenWithOwner = `select t.id, t.hash, t.name, t.abilities, t.last_used_at, t.expires_at, t.created_at,
      ${userJson} as user, ${ancestorsJson('t.id')} as ancestors
    from sallyport_directory.auth_access_tokens t join sallyport_directory.users u on u.id = t.tokenable_id`

export const findToken: Statement = { name: 'find-token', text: `${tokenWithOwner} where t.id = $1` }

export const findTokens: Statement = {
  name: 'find-tokens',
  text: `${tokenWithOwner} where t.id = any($1::integer[])`,
}

export const findTokenHashes: Statement = {
  name: 'find-token-hashes',
  text: 'select id, hash from sallyport_directory.auth_access_tokens where id = any($1::integer[])',
}

export const findMinterAndOwner: Statement = {
  name: 'find-minter-and-owner',
  text: `select
      (select ${userJson} from sallyport_directory.users u where u.id = $1) as minter,
      (select ${userJson} from sallyport_directory.users u where u.id = $2) as owner,
      (select t.abilities from sallyport_directory.auth_access_tokens t where t.id = $3 and t.tokenable_id = $1)
        as parent_abilities,
      ${ancestorsJson('$3')} as ancestors`,
}

export const lockIdentity: Statement = {
  name: 'lock-identity',
  // A JSON array separates the two values, whatever they contain.
  text: `select pg_advisory_xact_lock(hashtextextended(json_build_array($1::text, $2::text)::text, 0))`,
}

export const findHumansByEmail: Statement = {
  name: 'find-humans-by-email',
  // An unverified address may be anyone's, so only verified ones match.
  text: `select u.id from sallyport_directory.users u
    where ${foldAddress('u.email')} = ${foldAddress('$1')} and u.user_type = 'human' and ${isEmailVerified}
    order by u.id limit 2`,
}

export const verifyEmail: Statement = {
  name: 'verify-email',
  text: 'select sallyport_directory.verify_email($1, $2) as is_verified',
}

export const createUser: Statement = {
  name: 'create-user',
  text: `insert into sallyport_directory.users (email, username, first_name, last_name, full_name, user_type)
    values ($1, $2, $3, $4, $5, 'human') returning id`,
}

export const createIdentity: Statement = {
  name: 'create-identity',
  text: 'insert into sallyport_directory.user_identities (user_id, issuer, subject) values ($1, $2, $3)',
}

const organizationColumns = `o.id, o.name, o.slug, o.description, o.logo_url, o.website_url, o.contact_email, o.location,
  o.company_size, o.domain, o.account_type, o.is_verified, o.created_at, o.updated_at`

export const findOrganization: Statement = {
  name: 'find-organization',
  text: `select ${organizationColumns},
      (select count(*)::int from sallyport_directory.role_assignments r where r.organization_id = o.id) as member_count
    from sallyport_directory.organizations o where o.id = $1`,
}

const agent = 'select id, organization_id, is_public from sallyport_directory.agents'

export const findAgent: Statement = { name: 'find-agent', text: `${agent} where id = $1` }

export const findAgents: Statement = { name: 'find-agents', text: `${agent} where id = any($1::integer[])` }

const clusterColumns = 'c.id, c.organization_id, c.slug, c.base_url, c.status, c.last_heartbeat_at'

const cluster = `select ${clusterColumns} from sallyport_directory.clusters c`

export const findCluster: Statement = { name: 'find-cluster', text: `${cluster} where c.id = $1` }

export const findClusters: Statement = { name: 'find-clusters', text: `${cluster} where c.id = any($1::integer[])` }

export const listClusters: Statement = {
  name: 'list-clusters',
  text: `select ${clusterColumns} from sallyport_directory.clusters c order by c.id`,
}

export const setClusterStatus: Statement = {
  name: 'set-cluster-status',
  text: `with before as (select id, status from sallyport_directory.clusters where id = $1 for update)
    update sallyport_directory.clusters c
    set status = case when before.status in ('active', 'suspended') then $2 else before.status end
    from before where c.id = before.id returning ${clusterColumns}, before.status as was`,
}

export const beatCluster: Statement = {
  name: 'beat-cluster',
  text: `update sallyport_directory.clusters c set last_heartbeat_at = now() where c.id = $1
    returning ${clusterColumns}`,
}

export const findStoredOrganization: Statement = {
  name: 'find-stored-organization',
  text: `select u.current_organization_id as stored,
      exists (select from sallyport_directory.role_assignments where user_id = $1 and organization_id = $2) as is_member
    from sallyport_directory.users u where u.id = $1`,
}

export const switchOrganization: Statement = {
  name: 'switch-organization',
  // The membership may have ended since it was looked up.
  text: `update sallyport_directory.users set current_organization_id = $2, updated_at = now() where id = $1
    and exists (select from sallyport_directory.role_assignments where user_id = $1 and organization_id = $2)
    returning id`,
}

export const findMember: Statement = {
  name: 'find-member',
  text: `select u.id, u.user_type
    from sallyport_directory.users u join sallyport_directory.role_assignments r on r.user_id = u.id
    where r.organization_id = $1 and u.id = $2`,
}

const isMember = `exists (
      select from sallyport_directory.role_assignments r where r.user_id = u.id and r.organization_id = $1
    )`

const memberWith = (condition: string): string => `select ${userJson} as user
    from sallyport_directory.users u where ${condition} and ${isMember} limit 2`

export const findMemberById: Statement = { name: 'find-member-by-id', text: memberWith('u.id = $2') }

export const findMembersByUsername: Statement = {
  name: 'find-members-by-username',
  text: memberWith('u.username = $2'),
}

export const listMembers: Statement = {
  name: 'list-organization-members',
  text: `select ${userJson} as user
    from sallyport_directory.users u where u.id > $2 and ${isMember} order by u.id limit $3`,
}

export const findUniqueNames: Statement = {
  name: 'find-unique-names',
  text: `select min(u.id) as id
    from sallyport_directory.users u where u.username = any($2) and ${isMember}
    group by u.username having count(*) = 1`,
}

export const listAgents: Statement = {
  name: 'list-organization-agents',
  text: `${agent} where organization_id = $1 and id > $2 order by id limit $3`,
}

const tokenMetadata = 'id, name, abilities, last_used_at, expires_at, created_at'

export const mintToken: Statement = {
  name: 'mint-token',
  text: `insert into sallyport_directory.auth_access_tokens
    (tokenable_id, type, name, hash, abilities, created_at, updated_at, expires_at)
    values ($1, 'auth_token', $2, $3, $4, now(), now(), $5) returning ${tokenMetadata}`,
}

export const noteParent: Statement = {
  name: 'note-parent',
  text: 'insert into sallyport_directory.token_parents (token_id, parent_id) values ($1, $2)',
}

export const noteOrganization: Statement = {
  name: 'note-organization',
  text: 'insert into sallyport_directory.token_organizations (token_id, organization_id) values ($1, $2)',
}

/** Null for the organization means any. A token without a known organization was minted in none. */
const isMintedIn = (organization: string): string => `(${organization}::integer is null or exists (
  select from sallyport_directory.token_organizations m where m.token_id = t.id and m.organization_id = ${organization}
))`

/** A missing ancestor, deleted by a program that does not know of ancestors, counts as revoked. */
const isInLine = `not exists (
  with recursive line (id) as (
    select p.parent_id from sallyport_directory.token_parents p where p.token_id = t.id
    union
    select p.parent_id from line cross join ${lookUp('parent_id', 'token_parents', 'x.token_id = line.id')} p
  )
  select from line left join ${lookUp('id', 'auth_access_tokens', 'x.id = line.id')} a on true where a.id is null
)`

export const listTokens: Statement = {
  name: 'list-tokens',
  text: `select ${tokenMetadata} from sallyport_directory.auth_access_tokens t
    where t.tokenable_id = $1 and ${isMintedIn('$4')} and ${isInLine}
    order by t.created_at desc nulls last, t.id desc limit $2 offset $3`,
}

export const countTokens: Statement = {
  name: 'count-tokens',
  text: `select count(*)::int as total from sallyport_directory.auth_access_tokens t
    where t.tokenable_id = $1 and ${isMintedIn('$2')} and ${isInLine}`,
}

export const revokeToken: Statement = {
  name: 'revoke-token',
  // AdonisJS also revokes by deleting, so that no revoked row can be accepted by mistake.
  text: `delete from sallyport_directory.auth_access_tokens t
    where t.id = $1 and t.tokenable_id = $2 and ${isMintedIn('$3')} returning ${tokenMetadata}`,
}

export const revokeDescendants: Statement = {
  name: 'revoke-descendants',
  // "union" ends even if the data has a cycle. Each revoked descendant gets its own audit event.
  text: `with recursive descendants (id) as (
      select p.token_id from sallyport_directory.token_parents p where p.parent_id = $1
      union
      select p.token_id from descendants join sallyport_directory.token_parents p on p.parent_id = descendants.id
    ), gone as (
      delete from sallyport_directory.auth_access_tokens t using descendants where t.id = descendants.id
      returning t.id, t.tokenable_id
    )
    insert into sallyport_directory.audit_events
      (action, actor_id, credential, organization_id, subject_id, token_id, client_address, request_id)
    select 'token.revoked', $2, $3, $4, gone.tokenable_id, gone.id, $5, $6 from gone`,
}

export const writeAudit: Statement = {
  name: 'write-audit',
  text: `insert into sallyport_directory.audit_events
    (action, actor_id, credential, organization_id, subject_id, token_id, cluster_id, client_address, request_id)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
}

export const readTokenTrail: Statement = {
  name: 'read-token-trail',
  text: `select at, action, actor_id, credential, organization_id, subject_id, client_address, request_id
    from sallyport_directory.audit_events
    where token_id = $1 and action in ('token.minted', 'token.revoked') order by at limit 100`,
}

export const findUser: Statement = {
  name: 'find-user',
  text: `select ${userJson} as user from sallyport_directory.users u where u.id = $1`,
}

export const noteTokenUses: Statement = {
  name: 'note-token-uses',
  // The first replica that saw the token within a minute writes. A late batch never sets the time back.
  text: `update sallyport_directory.auth_access_tokens t set last_used_at = n.at
    from unnest($1::int[], $2::timestamptz[]) as n (id, at)
    where t.id = n.id and (t.last_used_at is null or n.at - t.last_used_at >= interval '1 minute')`,
}

export const ping: Statement = { name: 'ping', text: 'select 1' }
