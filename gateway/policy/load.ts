import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { compilePolicy, type Policy } from './compile.ts'
import { ConfigurationError } from './configuration-error.ts'
import { parseYaml, validateYaml } from './document.ts'
import type { PolicyFile, PolicyFileContent } from './file.ts'

/** The published schema, beside the shipped policies: editors use the very same file. */
const schemaFile = new URL('../../policies/policy.schema.json', import.meta.url)

/** Reads `*.yaml` of a directory as one table. Throws `ConfigurationError` with every problem and its place. */
export function loadPolicy(directory: string, upstreamNames: ReadonlySet<string>): Policy {
  const names = listFiles(directory)
  if (names.length === 0) throw fault(directory, 'holds no policy: expected at least one *.yaml file')
  const validate = compileSchema(schemaFile)
  const problems: ConfigurationError['problems'][number][] = []
  const files: PolicyFile[] = []
  for (const name of names) {
    try {
      files.push(readPolicyFile(join(directory, name), validate))
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      problems.push(...error.problems)
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems)
  return compilePolicy(files, upstreamNames)
}

/** `*.test.yaml` hold expectations, not policy. */
function listFiles(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
      .filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml') && !name.startsWith('.'))
      .sort()
  } catch (error) {
    throw unreadable(directory, error)
  }
}

/** What the file system says, by its code: its own message would name the path a second time. */
const unreadable = (file: string, error: unknown): ConfigurationError =>
  fault(file, `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`)

const fault = (file: string, message: string): ConfigurationError =>
  new ConfigurationError([{ file, line: 1, column: 1, message }])

function readPolicyFile(path: string, validate: ValidateFunction): PolicyFile {
  const yaml = parseYaml(path, readText(path))
  // The schema has just held: its shape is the type's.
  return { yaml, content: validateYaml(yaml, validate) as PolicyFileContent }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw unreadable(path, error)
  }
}

/** Compiles a JSON Schema that ships with the package; `coerceTypes` for values that come as text, from the environment. */
export function compileSchema(file: URL, { coerceTypes = false } = {}): ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes })
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
}
