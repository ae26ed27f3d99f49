import type pg from 'pg'
import type { ResourceKind } from '../../../policy/resource-kind.ts'
import type { Relation } from '../relations.ts'
import { attempt, type Row } from './attempt.ts'
import { type DirectoryProblem, schema } from './problem.ts'
import { checksOf, type Fault, type Vocabulary } from './values.ts'

/** A wrong column of a view is wrong in most records, and a view may have millions. */
const sampleSize = 200

export async function checkRows(client: pg.Client, relations: readonly Relation[], vocabulary: Vocabulary) {
  const problems: DirectoryProblem[] = []
  const checks = checksOf(vocabulary)
  for (const relation of relations)
    problems.push(...(await checkSample(client, relation, checks[relation.name] ?? (() => []))))
  const usable = new Set(relations.map(({ name }) => name))
  for (const kind of vocabulary.resources.filter(({ name }) => usable.has(`resources_${name}`)))
    problems.push(...(await findTwoRows(client, kind)))
  if (usable.has('role_assignments')) problems.push(...(await findTwoRoles(client)))
  return problems
}

async function checkSample(client: pg.Client, relation: Relation, check: (row: Row) => readonly Fault[]) {
  const { name, columns, optional = [] } = relation
  const sample = await attempt(
    client,
    `select ${Object.keys(columns)
      .filter((column) => !optional.includes(column))
      .join(', ')} from ${schema}.${name} limit ${sampleSize}`,
  )
  if ('refusal' in sample) return [unreadable(name, sample.refusal)]
  const required = Object.entries(columns).filter(([, type]) => !type.endsWith('?'))
  const faults = new Map<string, DirectoryProblem>()
  for (const row of sample.rows) {
    const nulls = required.filter(([column]) => row[column] === null).map(([column]) => nullIn(column))
    for (const { column, isError, ...rest } of nulls.length > 0 ? nulls : check(row)) {
      const problem: DirectoryProblem = {
        severity: isError ? 'error' : 'warning',
        where: `${schema}.${name}.${column}`,
        ...rest,
      }
      faults.set(problem.where + problem.message, problem)
    }
  }
  return [...faults.values()]
}

const nullIn = (column: string): Fault => ({
  column,
  code: 'null-value',
  message: 'is null in some row, and must not be',
  help: 'leave such rows out of the view, or give a value: coalesce(column, …)',
  isError: true,
})

const unreadable = (name: string, refusal: string): DirectoryProblem => ({
  severity: 'error',
  code: 'unreadable',
  where: `${schema}.${name}`,
  message: `cannot be read: ${refusal}`,
  help: "the view's owner must be allowed to read the tables behind it, or with security_invoker the role of database.url",
})

async function findTwoRows(client: pg.Client, { name }: ResourceKind): Promise<readonly DirectoryProblem[]> {
  const relation = `${schema}.resources_${name}`
  const found = await attempt(client, `select from ${relation} group by id having count(*) > 1 limit 1`)
  if ('refusal' in found || found.rows.length === 0) return []
  return [
    {
      severity: 'error',
      code: 'two-rows',
      where: relation,
      message: 'some id has two rows, and is 404',
      help: 'keep one in the view: select distinct on (id) …',
    },
  ]
}

async function findTwoRoles(client: pg.Client): Promise<readonly DirectoryProblem[]> {
  const found = await attempt(
    client,
    `select from ${schema}.role_assignments where organization_id is not null
      group by user_id, organization_id having count(*) > 1 limit 1`,
  )
  if ('refusal' in found || found.rows.length === 0) return []
  return [
    {
      severity: 'error',
      code: 'two-roles',
      where: `${schema}.role_assignments`,
      message: 'some user has two roles in one organization',
      help: 'keep one in the view: select distinct on (user_id, organization_id) …, with the one that counts first',
    },
  ]
}
