import { join } from 'node:path'
import type { ValidateFunction } from 'ajv/dist/2020.js'
import { packageRoot } from '../base/lib/package-root.ts'
import { ConfigurationError } from './configuration-error.ts'
import { parseYaml, validateYaml } from './document.ts'
import type { PolicyFileContent, PolicyReading, PolicyTexts } from './file.ts'
import { compileSchema } from './schema.ts'

const schemaFile = new URL('policies/policy.schema.json', packageRoot)

export function readPolicyFiles(directory: string, texts: PolicyTexts): ReadonlyMap<string, PolicyReading> {
  if (texts.size === 0) throw noPolicy(directory)
  const validate = compileSchema(schemaFile)
  const readings = new Map<string, PolicyReading>()
  const problems: ConfigurationError['problems'][number][] = []
  for (const [name, text] of texts) {
    try {
      readings.set(name, readPolicyFile(join(directory, name), text, validate))
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error
      problems.push(...error.problems)
    }
  }
  if (problems.length > 0) throw new ConfigurationError(problems)
  return readings
}

const noPolicy = (file: string): ConfigurationError =>
  new ConfigurationError([{ file, message: 'holds no policy: expected at least one *.yaml file' }])

function readPolicyFile(path: string, text: string, validate: ValidateFunction): PolicyReading {
  const yaml = parseYaml(path, text)
  const content = validateYaml(yaml, validate) as PolicyFileContent
  const routeLines = (content.routes ?? []).map((_, index) => yaml.problemAt(['routes', index], '').line)
  return { content, routeLines }
}
