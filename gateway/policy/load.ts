import { readdirSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { compilePolicy, type Policy } from './compile.ts'
import { ConfigurationError, explainUnreadable } from './configuration-error.ts'
import { parseYaml, type YamlFile } from './document.ts'
import type { PolicyFile, PolicyReading, PolicyTexts } from './file.ts'
import type { KnownUpstreams } from './known-upstreams.ts'
import { readPolicyFiles } from './read-files.ts'
import { readSoundFilesInThread } from './read-files-in-thread.ts'
import { readRegularNow } from './regular-file.ts'

export const loadPolicy = (directory: string, upstreams: KnownUpstreams): Policy =>
  parsePolicy(directory, readPolicyTextsNow(directory), upstreams)

export const parsePolicy = (directory: string, texts: PolicyTexts, upstreams: KnownUpstreams): Policy =>
  compilePolicy(joinReadings(directory, texts, readPolicyFiles(directory, texts)), upstreams)

export async function parsePolicyInThread(
  directory: string,
  texts: PolicyTexts,
  upstreams: KnownUpstreams,
): Promise<Policy> {
  const length = [...texts.values()].reduce((sum, text) => sum + text.length, 0)
  if (length < apartFrom) return parsePolicy(directory, texts, upstreams)
  const readings = await readSoundFilesInThread({ directory, texts, upstreams })
  return compilePolicy(joinReadings(directory, texts, readings), upstreams, true)
}

/**
 * Returns what the files hold, after a trial compilation. To place a mistake, a file is parsed again, and for a long
 * file that work belongs in the thread too.
 */
export function readSoundFiles(
  directory: string,
  texts: PolicyTexts,
  upstreams: KnownUpstreams,
): ReadonlyMap<string, PolicyReading> {
  const readings = readPolicyFiles(directory, texts)
  compilePolicy(joinReadings(directory, texts, readings), upstreams)
  return readings
}

/** In characters, some two hundred routes. A shorter policy blocks the event loop for at most 30 ms. */
const apartFrom = 32_768

/** Adds positions to the readings. They are rare, since only mistakes need them, so the file is parsed again. */
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

export function readPolicyTextsNow(directory: string): PolicyTexts {
  return gatherTexts(
    choosePolicyFiles(directory, listFiles(directory)).map((name): ReadFile => {
      const path = join(directory, name)
      try {
        return [name, readRegularNow(path)]
      } catch (error) {
        return [name, unreadable(path, error)]
      }
    }),
  )
}

export async function readPolicyTexts(
  directory: string,
  readText: (file: string) => Promise<string>,
): Promise<PolicyTexts> {
  const found = await readdir(directory).catch((error: unknown) => {
    throw unreadableFolder(directory, error)
  })
  const files: ReadFile[] = []
  // One after the other: on a file system that hangs, each read would block a thread of the pool.
  for (const name of choosePolicyFiles(directory, found)) {
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
    throw unreadableFolder(directory, error)
  }
}

function choosePolicyFiles(directory: string, names: readonly string[]): readonly string[] {
  const visible = names.filter((name) => !name.startsWith('.'))
  const others = visible.filter((name) => name.endsWith('.yml'))
  if (others.length > 0)
    throw new ConfigurationError(
      others.map((name) => ({
        file: join(directory, name),
        message: `is not read with this ending; name it ${name.slice(0, -'.yml'.length)}.yaml`,
      })),
    )
  return visible.filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml')).sort()
}

const unreadableFolder = (file: string, error: unknown): ConfigurationError =>
  new ConfigurationError([
    {
      file,
      message: `${explainUnreadable(error)}; name the folder of policies in policies.directory, or by --policies`,
    },
  ])

const unreadable = (file: string, error: unknown): ConfigurationError =>
  new ConfigurationError([{ file, message: explainUnreadable(error) }])
