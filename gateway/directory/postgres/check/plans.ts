import type pg from 'pg'
import { listLevels, type ResourceIdType, type ResourceKind } from '../../../policy/resource-kind.ts'
import type { Statement } from '../pool.ts'
import { statementsOf } from '../resources.ts'
import * as statements from '../statements.ts'
import { attempt } from './attempt.ts'
import type { DirectoryProblem } from './problem.ts'

type Question = Readonly<{
  statement: Statement
  values: string
  when: string
  reads: readonly string[]
}>

const questions: readonly Question[] = [
  {
    statement: statements.findToken,
    values: '1',
    when: 'a request with an API token',
    reads: ['auth_access_tokens', 'users', 'role_assignments', 'organizations'],
  },
  {
    statement: statements.findTokenHashes,
    values: 'array[1]',
    when: 'a request with an API token',
    reads: ['auth_access_tokens'],
  },
  {
    statement: statements.findByIdentity,
    values: "'issuer', 'subject'",
    when: 'a request with an OAuth token',
    reads: ['user_identities', 'users', 'role_assignments', 'organizations'],
  },
  {
    statement: statements.findOrganization,
    values: '1',
    when: 'GET /users/me',
    reads: ['organizations', 'role_assignments'],
  },
  {
    statement: statements.findMember,
    values: '1, 1',
    when: 'minting and listing tokens',
    reads: ['users', 'role_assignments'],
  },
  { statement: statements.listTokens, values: '1, 20, 0, 1', when: 'a list of tokens', reads: ['auth_access_tokens'] },
  { statement: statements.findAgent, values: '1', when: 'a request to an agent', reads: ['agents'] },
  { statement: statements.findCluster, values: '1', when: 'a request to a cluster', reads: ['clusters'] },
]

const listOfAgents: Question = {
  statement: statements.listAgents,
  values: '1, 1, 200',
  when: 'a search of agents by AuthZEN',
  reads: ['agents'],
}

const askResource = (kind: ResourceKind): Question => ({
  statement: statementsOf(kind).one,
  values: `${exampleIds[kind.idType]}, 1`,
  when: `a request to a ${kind.name}`,
  reads: listLevels(kind).map(({ name }) => `resources_${name}`),
})

const askResources = (kind: ResourceKind): Question => ({
  statement: statementsOf(kind).nextIds,
  values: `1, 200, ${exampleIds[kind.idType]}`,
  when: `a search of each ${kind.name} by AuthZEN`,
  reads: [`resources_${kind.name}`],
})

const exampleIds: Readonly<Record<ResourceIdType, string>> = {
  integer: '1',
  bigint: '1',
  uuid: "'00000000-0000-0000-0000-000000000000'",
  text: "'1'",
}

type Plan = Readonly<{
  'Node Type': string
  'Relation Name'?: string
  Alias?: string
  Schema?: string
  Filter?: string
  'Index Cond'?: string
  Plans?: readonly Plan[]
}>

export async function checkPlans(
  client: pg.Client,
  usable: ReadonlySet<string>,
  kinds: readonly ResourceKind[],
): Promise<readonly DirectoryProblem[]> {
  // With these off, PostgreSQL uses an index if a fitting one exists, even on small tables.
  for (const setting of ['enable_seqscan', 'enable_hashjoin', 'enable_mergejoin'])
    await client.query(`set local ${setting} = off`)
  await client.query('set local plan_cache_mode = force_generic_plan')
  const problems = new Map<string, DirectoryProblem>()
  const note = (problem: DirectoryProblem, condition: string): void => {
    const key = problem.where + condition
    if (!problems.has(key)) problems.set(key, problem)
  }
  for (const question of [...questions, ...kinds.map(askResource)]) {
    const { when, reads } = question
    if (!reads.every((name) => usable.has(name))) continue
    for (const { table, alias, condition } of findReads(await explain(client, question), isWhole)) {
      const columns = listCompared(alias, condition)
      if (await isIndexed(client, table, columns)) continue
      const message = `${when} reads the whole table, to find ${condition}`
      note(adviseIndex(table, message, columns), condition)
    }
  }
  await client.query('set local enable_bitmapscan = off')
  for (const question of [listOfAgents, ...kinds.map(askResources)]) {
    if (!question.reads.every((name) => usable.has(name))) continue
    for (const { table, alias, condition } of findReads(await explain(client, question), isScan)) {
      const isByOrganization = listCompared(alias, condition).includes('organization_id')
      if (!isByOrganization || (await isIndexed(client, table, ['organization_id']))) continue
      const message = `${question.when} reads the rows of all organizations, to find ${condition}`
      note(adviseIndex(table, message, ['organization_id']), condition)
    }
  }
  return [...problems.values()]
}

const adviseIndex = (table: string, message: string, columns: readonly string[]): DirectoryProblem => ({
  severity: 'warning',
  code: 'no-index',
  where: table,
  message,
  help: columns.length > 0 ? `create index on ${table} (${columns.join(', ')});` : 'create an index on that column',
})

async function explain(client: pg.Client, { statement, values }: Question): Promise<readonly Plan[]> {
  const prepared = await attempt(client, `prepare sallyport_check as ${statement.text}`)
  if ('refusal' in prepared) throw new Error(`a statement of the gateway does not fit: ${prepared.refusal}`)
  const explained = await attempt(client, `explain (format json, verbose) execute sallyport_check (${values})`)
  await client.query('deallocate sallyport_check')
  if ('refusal' in explained) return []
  const [row] = explained.rows as readonly { 'QUERY PLAN': readonly { Plan: Plan }[] }[] // the shape of EXPLAIN's output
  return row?.['QUERY PLAN'].map(({ Plan: plan }) => plan) ?? []
}

const isScan = (plan: Plan): boolean => /^Seq Scan$|^Index (Only )?Scan$/.test(plan['Node Type'])

const isWhole = (plan: Plan): boolean => isScan(plan) && plan['Index Cond'] === undefined

type Read = Readonly<{ table: string; alias: string; condition: string }>

function findReads(plans: readonly Plan[], isFound: (plan: Plan) => boolean): readonly Read[] {
  return plans.flatMap((plan) => {
    const { Schema: of, 'Relation Name': name, Alias: alias = '', Filter: condition } = plan
    const found =
      isFound(plan) && name !== undefined && condition !== undefined
        ? [{ table: `${of}.${name}`, alias, condition }]
        : []
    return [...found, ...findReads(plan.Plans ?? [], isFound)]
  })
}

function listCompared(alias: string, condition: string): readonly string[] {
  if (/\w\(/.test(condition)) return []
  const compared = [...condition.matchAll(/(?:\((\w+)\.(\w+)\)::([a-z]+)|\b(\w+)\.(\w+))(?= = |\))/g)]
  const columns = compared.flatMap(([, castOf, cast, type, of, plain = '']) => {
    if (castOf === alias) return [`(${cast}::${type})`]
    return of === alias ? [plain] : []
  })
  return [...new Set(columns)]
}

// On a small table PostgreSQL may read the whole of another index, at the same cost.
const findIndex = `select from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = i.indkey[0]
  where i.indrelid = to_regclass($1) and i.indisvalid and i.indpred is null and a.attname = any($2::text[])`

async function isIndexed(client: pg.Client, table: string, columns: readonly string[]): Promise<boolean> {
  const { rows } = await client.query(findIndex, [table, columns])
  return rows.length > 0
}
