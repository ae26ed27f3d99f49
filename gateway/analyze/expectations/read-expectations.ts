import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../base/lib/package-root.ts'
import type { Policy } from '../../policy/compile.ts'
import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { parseYaml, validateYaml } from '../../policy/document.ts'
import { compileSchema } from '../../policy/schema.ts'
import { type CallerOptions, findUnknown } from '../caller-options.ts'
import { readText } from '../read-policy.ts'

const schemaFile = new URL('policies/policy-test.schema.json', packageRoot)

export type ExpectationContent = Readonly<{
  name?: string
  requests: readonly string[]
  host?: string
  callers: readonly (CallerOptions & Readonly<{ anonymous?: boolean }>)[]
  expect: 'allow' | 'deny'
  status?: number
  code?: string
  check?: string
  route?: string
  upstreamPath?: string
  asks?: readonly string[]
}>

export type Expectation = ExpectationContent & Readonly<{ place: string }>

export function readExpectations(directory: string, policy: Policy): readonly Expectation[] {
  const names = readdirSync(directory).filter((name) => name.endsWith('.test.yaml') && !name.startsWith('.'))
  if (names.length === 0) {
    const message = 'holds no expectations: write at least one *.test.yaml'
    throw new ConfigurationError([{ file: directory, message }])
  }
  const validate = compileSchema(schemaFile)
  const problems: Problem[] = []
  const expectations = names.sort().flatMap((name) => {
    try {
      return readFile(join(directory, name), validate, policy, problems)
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      problems.push(...error.problems)
      return []
    }
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
  return expectations
}

type Validate = ReturnType<typeof compileSchema>

function readFile(path: string, validate: Validate, policy: Policy, problems: Problem[]): readonly Expectation[] {
  const yaml = parseYaml(path, readText(path))
  const { tests } = validateYaml(yaml, validate) as Readonly<{ tests: readonly ExpectationContent[] }>
  const ids = new Set(policy.routes.map(({ id }) => id))
  return tests.map((content, index) => {
    const report = (inside: readonly (string | number)[], message: string): void =>
      void problems.push(yaml.problemAt(['tests', index, ...inside], message))
    if (content.route !== undefined && !ids.has(content.route)) report(['route'], `unknown route "${content.route}"`)
    for (const [position, caller] of content.callers.entries()) {
      for (const message of findUnknown(caller, policy.roles)) report(['callers', position], message)
      if (caller.anonymous && Object.keys(caller).length > 1)
        report(['callers', position], 'an anonymous caller holds nothing else')
    }
    const { file, line, column } = yaml.problemAt(['tests', index], '')
    return { ...content, place: `${file}:${line}:${column}` }
  })
}
