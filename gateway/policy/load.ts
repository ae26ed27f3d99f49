import { readdirSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { compilePolicy, type Policy } from './compile.ts'
import { ConfigurationError } from './configuration-error.ts'
import { parseYaml, type YamlFile } from './document.ts'
import type { PolicyFile, PolicyReading, PolicyTexts } from './file.ts'
import { readPolicyFiles } from './read-files.ts'
import { readSoundFilesApart } from './read-files-apart.ts'
import { readRegularNow } from './regular-file.ts'

/** Reads `*.yaml` of a directory as one table. Throws `ConfigurationError` with every problem and its place. */
export const loadPolicy = (directory: string, upstreamNames: ReadonlySet<string>): Policy =>
  parsePolicy(directory, readPolicyTextsNow(directory), upstreamNames)

/** Compiles what was read from a directory. Throws `ConfigurationError` with every problem and its place. */
export const parsePolicy = (directory: string, texts: PolicyTexts, upstreamNames: ReadonlySet<string>): Policy =>
  compilePolicy(joinReadings(directory, texts, readPolicyFiles(directory, texts)), upstreamNames)

/** As `parsePolicy`; a long table is read by a thread of its own, so that everything else goes on meanwhile. */
export async function parsePolicyApart(
  directory: string,
  texts: PolicyTexts,
  upstreamNames: ReadonlySet<string>,
): Promise<Policy> {
  const length = [...texts.values()].reduce((sum, text) => sum + text.length, 0)
  if (length < apartFrom) return parsePolicy(directory, texts, upstreamNames)
  const readings = await readSoundFilesApart({ directory, texts, upstreamNames })
  return compilePolicy(joinReadings(directory, texts, readings), upstreamNames)
}

/**
 * What the files hold, once they compile: to place a mistake a file is parsed again, which for a long one is work for a
 * thread, too. Throws `ConfigurationError`.
 */
export function readSoundFiles(
  directory: string,
  texts: PolicyTexts,
  upstreamNames: ReadonlySet<string>,
): ReadonlyMap<string, PolicyReading> {
  const readings = readPolicyFiles(directory, texts)
  compilePolicy(joinReadings(directory, texts, readings), upstreamNames)
  return readings
}

/** In characters: some two hundred routes. What is shorter holds nobody up for more than some 30 ms. */
const apartFrom = 32_768

/** Gives what was read the means to say where it stands, for which a file is parsed again: only mistakes are asked for. */
function joinReadings(
  directory: string,
  texts: PolicyTexts,
  readings: ReadonlyMap<string, PolicyReading>,
): readonly PolicyFile[] {
  return [...readings].map(([name, reading]) => {
    const path = join(directory, name)
    let yaml: YamlFile | undefined
    const problemAt: PolicyFile['problemAt'] = (place, message) => {
      yaml ??= parseYaml(path, texts.get(name) ?? '')
      return yaml.problemAt(place, message)
    }
    return { name: path, ...reading, problemAt }
  })
}

/** Reads the policy files of a directory, while everything else waits. */
export function readPolicyTextsNow(directory: string): PolicyTexts {
  return gatherTexts(
    choosePolicyFiles(listFiles(directory)).map((name): ReadFile => {
      const path = join(directory, name)
      try {
        return [name, readRegularNow(path)]
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
  const files: ReadFile[] = []
  // One after the other: on a file system that does not answer, each would keep a thread of the pool.
  for (const name of choosePolicyFiles(found)) {
    const path = join(directory, name)
    files.push([name, await readText(path).catch((error: unknown) => unreadable(path, error))])
  }
  return gatherTexts(files)
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
