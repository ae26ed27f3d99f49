import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isPair, isScalar, visit } from 'yaml'
import { ConfigurationError, explainUnreadable, type Problem } from '../policy/configuration-error.ts'
import type { YamlFile } from '../policy/document.ts'

export type Environment = Readonly<Record<string, string | undefined>>

export type ValueFiles = Readonly<{
  byNode: ReadonlyMap<unknown, string>
  secrets: readonly string[]
}>

/** Names of public values; any other value that comes from a file counts as a secret. */
const publicNames: ReadonlySet<unknown> = new Set(['cert', 'ca', 'clientCa'])

/**
 * Replaces `${NAME}`, `${NAME:-default}` and `file:PATH` in every value of the document, in place, so that later
 * problems keep their line. Messages never quote a value.
 */
export function interpolate(file: YamlFile, directory: string, environment: Environment): ValueFiles {
  const problems: Problem[] = []
  const byNode = new Map<unknown, string>()
  const secrets = new Set<string>()
  visit(file.document, {
    Scalar(key, node, ancestors) {
      if (key === 'key' || typeof node.value !== 'string') return
      try {
        const text = expand(node.value, environment)
        const path = text.startsWith('file:') ? resolve(directory, text.slice('file:'.length)) : undefined
        node.value = path === undefined ? text : readSecret(path, ancestors.some(isIdentity))
        if (path === undefined) return
        byNode.set(node, path)
        const owner = ancestors.at(-1)
        if (!isPair(owner) || !isScalar(owner.key) || !publicNames.has(owner.key.value)) secrets.add(path)
      } catch (error) {
        problems.push(file.problemAtOffset(node.range?.[0] ?? 0, (error as Error).message))
      }
    },
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
  return { byNode, secrets: [...secrets] }
}

const isIdentity = (node: unknown): boolean => isPair(node) && isScalar(node.key) && node.key.value === 'identity'

/** Innermost first, so that a default may itself name a variable. */
function expand(text: string, environment: Environment): string {
  const pattern = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}/
  const done: string[] = []
  let rest = text
  for (let match = pattern.exec(rest); match; match = pattern.exec(rest)) {
    const [whole, name = '', fallback] = match
    const value = environment[name]
    const isSet = value !== undefined && value !== ''
    if (!isSet && fallback === undefined)
      throw new Error(`environment variable ${name} is not set. Set it, or give a default: \${${name}:-value}`)
    // A value is data: a place-holder keeps `${…}` inside it from being expanded.
    done.push(isSet ? value : (fallback ?? ''))
    rest = rest.replace(whole, () => `\u0000${done.length - 1}\u0001`)
  }
  if (rest.includes('${')) throw new Error(`has a malformed variable; write \${NAME} or \${NAME:-default}`)
  for (let index = done.length - 1; index >= 0; index--)
    rest = rest.replace(`\u0000${index}\u0001`, () => done[index] ?? '')
  return rest
}

/** A secret's file usually ends in a line feed that is not part of it. */
function readSecret(path: string, isSigningKey: boolean): string {
  try {
    return readFileSync(path, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const remedy = isSigningKey ? ' "sallyport keys generate" writes one.' : ''
    throw new Error(
      `file ${path} ${explainUnreadable(error)}.${remedy} A path after "file:" starts at the folder of this file.`,
    )
  }
}
