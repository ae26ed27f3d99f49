import type { ResourceKind } from '../../../policy/resource-kind.ts'
import { parseAbilities } from '../rows.ts'
import type { ProblemCode } from './problem.ts'

export type Fault = Readonly<{ column: string; code: ProblemCode; message: string; help: string; isError: boolean }>

type Row = Readonly<Record<string, unknown>>

export type Vocabulary = Readonly<{ roles: ReadonlySet<string>; resources: readonly ResourceKind[] }>

const oneOf =
  (column: string, words: readonly string[], consequence: string) =>
  (row: Row): readonly Fault[] =>
    words.includes(String(row[column]))
      ? []
      : [
          {
            column,
            code: 'wrong-value',
            message: `holds something else than ${words.map((word) => `'${word}'`).join(', ')}: ${consequence}`,
            help: 'map it in the view: case … when … then … end',
            isError: true,
          },
        ]

const checkToken = (row: Row): readonly Fault[] => {
  const faults: Fault[] = []
  if (!/^[0-9a-f]{64}$/.test(String(row.hash)))
    faults.push({
      column: 'hash',
      code: 'wrong-value',
      message: 'is not the SHA-256 of a secret in 64 lower-case hex digits: such tokens are refused',
      help: 'leave tokens of other kinds out of the view, by a "where"',
      isError: false,
    })
  if (parseAbilities(String(row.abilities)).length === 0 && row.abilities !== '[]')
    faults.push({
      column: 'abilities',
      code: 'wrong-value',
      message: 'is not a JSON array of strings: such tokens may do nothing',
      help: 'write it in the view as text, such as to_json(column)::text',
      isError: true,
    })
  return faults
}

const checkRole =
  ({ roles }: Vocabulary) =>
  ({ role }: Row): readonly Fault[] =>
    roles.has(String(role))
      ? []
      : [
          {
            column: 'role',
            code: 'unknown-role',
            message: `has ${JSON.stringify(role)}, which policies/roles.yaml does not know: it grants nothing`,
            help: 'map it in the view, add it to policies/roles.yaml, or leave such rows out',
            isError: false,
          },
        ]

export const checksOf = (
  vocabulary: Vocabulary,
): Readonly<Record<string, ((row: Row) => readonly Fault[]) | undefined>> => ({
  users: oneOf('user_type', ['human', 'client-managed'], 'the gateway cannot tell whether it may have tokens'),
  organizations: oneOf('account_type', ['individual', 'team', 'enterprise'], 'it could have no tokens minted'),
  clusters: oneOf('status', ['active', 'suspended', 'deleting'], 'such a cluster counts as one that is being deleted'),
  auth_access_tokens: checkToken,
  role_assignments: checkRole(vocabulary),
  ...Object.fromEntries(
    vocabulary.resources
      .filter(({ hasVisibility }) => hasVisibility)
      .map(({ name }) => [
        `resources_${name}`,
        oneOf('visibility', ['organization', 'public', 'private'], 'such a resource is 404'),
      ]),
  ),
})
