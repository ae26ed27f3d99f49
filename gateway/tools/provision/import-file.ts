import { statSync } from 'node:fs'
import { basename } from 'node:path'
import { UsageError } from '../../configuration/failure.ts'
import { ConfigurationError, explainUnreadable, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml } from '../../policy/document.ts'
import { readRegularNow } from '../../policy/regular-file.ts'
import { parseCsv } from './csv.ts'

export type ImportEntry = Readonly<{
  kind: ImportKind
  fields: Readonly<Record<string, string>>
  problemAt: (field: string | undefined, message: string) => Problem
}>

export type ImportKind = (typeof kinds)[number]

export const kinds = ['organizations', 'users', 'serviceAccounts', 'members', 'agents', 'clusters'] as const

type Fields = Readonly<{ required: readonly string[]; optional: readonly string[] }>

const named = ['externalId', 'name']

const fieldsOf: Readonly<Record<ImportKind, Fields>> = {
  organizations: { required: [...named, 'slug'], optional: ['type'] },
  users: {
    required: ['externalId', 'email'],
    optional: ['emailVerified', 'issuer', 'subject', 'username', 'firstName', 'lastName'],
  },
  serviceAccounts: { required: [...named, 'organization', 'email', 'role'], optional: [] },
  members: { required: ['organization', 'role'], optional: ['user', 'userExternalId', 'issuer', 'subject', 'email'] },
  agents: { required: [...named, 'organization'], optional: ['public'] },
  clusters: { required: [...named, 'organization', 'slug', 'baseUrl'], optional: [] },
}

/** A file is read and checked whole before the first entry is stored; 5,000 entries of 200 bytes have about 1 MiB. */
const mostBytes = 1_048_576
const mostEntries = 5_000

export function readImportFile(path: string): readonly ImportEntry[] {
  const size = readSize(path)
  if (size > mostBytes) throw new UsageError(`${path} has ${size} bytes, and may have ${mostBytes}; split it`)
  const text = readRegularNow(path)
  const file = basename(path)
  if (text.includes('\ufffd')) throw new UsageError(`${path} must be UTF-8 text`)
  const entries = path.endsWith('.csv') ? readCsvEntries(file, text) : readYamlEntries(file, text)
  if (entries.length > mostEntries)
    throw new UsageError(`${path} has ${entries.length} entries, and may have ${mostEntries}; split it`)
  const problems = entries.flatMap(checkFields)
  if (problems.length > 0) throw new ConfigurationError(problems.slice(0, mostProblems))
  return kinds.flatMap((kind) => entries.filter((entry) => entry.kind === kind))
}

function readSize(path: string): number {
  try {
    return statSync(path).size
  } catch (error) {
    throw new UsageError(`${path} ${explainUnreadable(error)}. Name the file to import.`)
  }
}

/** More would scroll the first one away. */
const mostProblems = 20

function checkFields({ kind, fields, problemAt }: ImportEntry): readonly Problem[] {
  const { required, optional } = fieldsOf[kind]
  const known = [...required, ...optional]
  return [
    ...Object.keys(fields)
      .filter((name) => !known.includes(name))
      .map((name) => problemAt(name, `${kind} have no field "${name}"; they have ${known.join(', ')}`)),
    ...required
      .filter((name) => fields[name] === undefined)
      .map((name) => problemAt(undefined, `this entry of ${kind} needs the field "${name}"`)),
  ]
}

const findKind = (text: string): ImportKind | undefined => kinds.find((kind) => kind === text)

function readYamlEntries(name: string, text: string): readonly ImportEntry[] {
  const file = parseYaml(name, text)
  const content: unknown = file.document.toJS()
  const fail = (path: readonly (string | number)[], message: string): ConfigurationError =>
    new ConfigurationError([file.problemAt(path, message)])
  if (!isRecord(content)) throw fail([], `must be a map of ${kinds.join(', ')}`)
  return Object.entries(content).flatMap(([key, list]) => {
    const kind = findKind(key)
    if (!kind) throw fail([key], `"${key}" is not known; known are ${kinds.join(', ')}`)
    if (!Array.isArray(list)) throw fail([key], `${key} must be a list`)
    return list.map((value: unknown, index): ImportEntry => {
      if (!isRecord(value)) throw fail([key, index], 'must be a map of fields')
      const fields = Object.entries(value).map(([field, given]) => {
        const isId = typeof given === 'number' && ['organization', 'user'].includes(field)
        // YAML reads 0047 as 47: another name than was written.
        if (typeof given !== 'string' && typeof given !== 'boolean' && !isId)
          throw fail([key, index, field], `${field} must be text; put it in quotes`)
        return [field, String(given)] as const
      })
      const problemAt = (field: string | undefined, message: string): Problem =>
        file.problemAt([key, index, ...(field === undefined ? [] : [field])], message)
      return { kind, fields: Object.fromEntries(fields), problemAt }
    })
  })
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The first line names the fields; its column `kind` says which kind an entry is. An empty field is one that is not there. */
function readCsvEntries(file: string, text: string): readonly ImportEntry[] {
  const [header = [], ...rows] = parseCsv(file, text)
  const names = header.map((cell) => cell.text)
  const fail = (line: number, column: number, message: string): ConfigurationError =>
    new ConfigurationError([{ file, line, column, message }])
  const kindColumn = names.indexOf('kind')
  if (kindColumn < 0) throw fail(1, 1, 'the first line must name the fields, "kind" among them')
  if (new Set(names).size !== names.length) throw fail(1, 1, 'the first line names a field twice')
  return rows.map((cells): ImportEntry => {
    const [first, kindCell] = [cells[0], cells[kindColumn]]
    const { line = 1, column = 1 } = first ?? {}
    if (cells.length !== names.length)
      throw fail(line, column, `has ${cells.length} fields, and the first line names ${names.length}`)
    const kind = findKind(kindCell?.text ?? '')
    if (!kind) throw fail(line, kindCell?.column ?? 1, `kind must be one of ${kinds.join(', ')}`)
    const given = cells.flatMap((cell, index) =>
      index === kindColumn || cell.text === '' ? [] : [[names[index] ?? '', cell] as const],
    )
    const places = new Map(given)
    const problemAt = (field: string | undefined, message: string): Problem => {
      const place = places.get(field ?? '')
      return { file, line: place?.line ?? line, column: place?.column ?? column, message }
    }
    return { kind, fields: Object.fromEntries(given.map(([name, cell]) => [name, cell.text])), problemAt }
  })
}
