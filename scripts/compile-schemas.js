// Writes the validators of the schemas that ship, as a build has them: `node scripts/compile-schemas.js DIST`.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const { default: standaloneCode } = createRequire(import.meta.url)('ajv/dist/standalone/index.js')

const root = fileURLToPath(new URL('..', import.meta.url))
const [, , dist] = process.argv
const { createCompiler, nameValidator } = await import(pathToFileURL(join(dist, 'gateway/policy/schema.js')).href)

const schemas = [
  ['config/gateway.schema.json', { coerceTypes: true }],
  ['policies/policy.schema.json', {}],
  ['policies/policy-test.schema.json', {}],
]
mkdirSync(join(dist, 'schemas'), { recursive: true })
for (const [file, options] of schemas) {
  const text = readFileSync(join(root, file), 'utf8')
  const ajv = createCompiler(options)
  const code = standaloneCode(ajv, ajv.compile(JSON.parse(text)))
  writeFileSync(join(dist, 'schemas', nameValidator(text, options)), code)
}
