import { readFileSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { loadConfiguration } from '../configuration/configuration.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import { loadPolicy, parsePolicy } from '../policy/load.ts'

/** Where the policies are: in the folder of a configuration, or in one that is named. */
export type PolicySource = Readonly<{ config: string; policies?: string }>

/** A folder alone says nothing of upstreams: there every name is as good as another. */
const anyName: ReadonlySet<string> = Object.assign(new Set<string>(), { has: () => true })

/** The table that a question is about, and its folder. */
export function readPolicy({ config, policies }: PolicySource): Readonly<{ policy: Policy; directory: string }> {
  if (policies !== undefined) return { policy: loadPolicy(policies, anyName), directory: policies }
  const configuration = loadConfiguration(config, process.env)
  const { directory } = configuration.policies
  return { policy: loadPolicy(directory, new Set(Object.keys(configuration.upstreams))), directory }
}

/** A table for any upstreams, from a folder or from one file that holds all of it. */
export function readPolicyAt(path: string): Policy {
  if (!isFile(path)) return loadPolicy(path, anyName)
  return parsePolicy(dirname(path), new Map([[basename(path), readText(path)]]), anyName)
}

/** Reads a file that somebody named; one that cannot be read is a mistake of theirs. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    // By its code: the file system's own message would name the path a second time.
    const message = `cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown error'}`
    throw new ConfigurationError([{ file: path, line: 1, column: 1, message }])
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true
