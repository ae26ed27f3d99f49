import { readFileSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { type Configuration, loadConfiguration } from '../configuration/configuration.ts'
import { readUpstreamAddresses } from '../configuration/upstream-addresses.ts'
import type { Policy } from '../policy/compile.ts'
import { ConfigurationError, explainUnreadable } from '../policy/configuration-error.ts'
import { loadPolicy, parsePolicy } from '../policy/load.ts'
import { checkDecisionPoints, checkResourceHeaders, checkRuleNames } from './rule-names.ts'

export type PolicySource = Readonly<{ config: string; policies?: string }>

/** A folder alone does not name upstreams, so any name is valid. */
const anyName: ReadonlySet<string> = Object.assign(new Set<string>(), { has: () => true })

export type ReadPolicy = Readonly<{ policy: Policy; directory: string; configuration: Configuration | undefined }>

export function readPolicy({ config, policies }: PolicySource): ReadPolicy {
  if (policies !== undefined)
    return { policy: loadPolicy(policies, anyName), directory: policies, configuration: undefined }
  const configuration = loadConfiguration(config, process.env)
  const { directory } = configuration.policies
  const policy = loadPolicy(directory, readUpstreamAddresses(configuration))
  checkRuleNames(configuration, policy)
  checkDecisionPoints(configuration, policy)
  checkResourceHeaders(configuration, policy)
  return { policy, directory, configuration }
}

export function readPolicyAt(path: string): Policy {
  if (!isFile(path)) return loadPolicy(path, anyName)
  return parsePolicy(dirname(path), new Map([[basename(path), readText(path)]]), anyName)
}

export function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new ConfigurationError([{ file: path, message: `${explainUnreadable(error)}; check the path` }])
  }
}

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true
