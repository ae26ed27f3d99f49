import { readdirSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { compilePolicy, type Policy } from './compile.ts'
import { ConfigurationError } from './configuration-error.ts'
import { parseYaml, validateYaml } from './document.ts'
import type { PolicyFile, PolicyFileContent } from './file.ts'

/** The published schema, beside the shipped policies: editors use the very same file. */
const schemaFile = new URL('../../policies/policy.schema.json', import.meta.url)

/** What each policy file of a directory says, by its name, in the order of the names. */
export type PolicyTexts = ReadonlyMap<string, string>

/** Reads `*.yaml` of a directory as one table. Throws `ConfigurationError` with every problem and its place. */
export const loadPolicy = (directory: string, upstreamNames: ReadonlySet<string>): Policy =>
  parsePolicy(directory, readPolicyTextsNow(directory), upstreamNames)

/** Compiles what was read from a directory. Throws `ConfigurationError` with every problem and its place. */
export function parsePolicy(directory: string, texts: PolicyTexts, upstreamNames: ReadonlySet<string>): Policy {
  if (texts.size === 0) throw fault(directory, 'holds no policy: expected at least one *.yaml file')
  const validate = compileSchema(schemaFile)
  const problems: ConfigurationError['problems'][number][] = []
  const files: PolicyFile[] = []
  for (const [name, text] of texts) {
    try {
      files.push(readPolicyFile(join(directory, name), text, validate))
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      problems.push(...error.problems)
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems)
  return compilePolicy(files, upstreamNames)
}

/** Reads the policy files of a directory, while everything else waits. */
export function readPolicyTextsNow(directory: string): PolicyTexts {
  return gatherTexts(
    choosePolicyFiles(listFiles(directory)).map((name): ReadFile => {
      const path = join(directory, name)
      try {
        return [name, readFileSync(path, 'utf8')]
      } catch (error) {
        return [name, unreadable(path, error)]
      }
    }),
  )
}

/** Reads the policy files of a directory, while everything else goes on. */
export async function readPolicyTexts(
  directory: string,
  readText: (file: string) => Promise<string>,
): Promise<PolicyTexts> {
  const found = await readdir(directory).catch((error: unknown) => {
    throw unreadable(directory, error)
  })
  return gatherTexts(
    await Promise.all(
      choosePolicyFiles(found).map(async (name): Promise<ReadFile> => {
        const path = join(directory, name)
        return [name, await readText(path).catch((error: unknown) => unreadable(path, error))]
      }),
    ),
  )
}

type ReadFile = readonly [name: string, content: string | ConfigurationError]

function gatherTexts(files: readonly ReadFile[]): PolicyTexts {
  const problems = files.flatMap(([, content]) => (typeof content === 'string' ? [] : content.problems))
  if (problems.length > 0) throw new ConfigurationError(problems)
  return new Map(files.flatMap(([name, content]) => (typeof content === 'string' ? [[name, content] as const] : [])))
}

function listFiles(directory: string): readonly string[] {
  try {
    return readdirSync(directory)
  } catch (error) {
    throw unreadable(directory, error)
  }
}

/** `*.test.yaml` hold expectations, not policy. */
const choosePolicyFiles = (names: readonly string[]): readonly string[] =>
  names.filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml') && !name.startsWith('.')).sort()

/** What the file system says, by its code: its own message would name the path a second time. */
const unreadable = (file: string, error: unknown): ConfigurationError =>
  fault(file, `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`)

const fault = (file: string, message: string): ConfigurationError =>
  new ConfigurationError([{ file, line: 1, column: 1, message }])

function readPolicyFile(path: string, text: string, validate: ValidateFunction): PolicyFile {
  const yaml = parseYaml(path, text)
  // The schema has just held: its shape is the type's.
  return { yaml, content: validateYaml(yaml, validate) as PolicyFileContent }
}

/** Compiles a JSON Schema that ships with the package; `coerceTypes` for values that come as text, from the environment. */
export function compileSchema(file: URL, { coerceTypes = false } = {}): ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allErrors: true, useDefaults: true, allowUnionTypes: true, coerceTypes })
  return ajv.compile(JSON.parse(readFileSync(file, 'utf8')))
}
