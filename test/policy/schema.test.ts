import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import type { ValidateFunction } from 'ajv/dist/2020.js'
import t from 'tap'
import { parse } from 'yaml'
import { createCompiler, nameValidator } from '../../gateway/policy/schema.ts'
import { describeViolations } from '../../gateway/policy/violations.ts'

const schemas = [
  ['config/gateway.schema.json', { coerceTypes: true }, 'config/gateway.yaml'],
  ['policies/policy.schema.json', {}, 'policies/platform.yaml'],
  ['policies/policy-test.schema.json', {}, 'policies/table.test.yaml'],
] as const

const at = (path: string): URL => new URL(`../../${path}`, import.meta.url)
const readText = (path: string): string => readFileSync(at(path), 'utf8')

const oddValues = [null, true, -1, 1.5, 65_536, '', 'x', '7', [], ['x', 'x'], {}, { x: 1 }]

/** A sound document's variants, in each of which one value is another, is missing, or has a neighbor that is unknown. */
function* vary(value: unknown): Iterable<unknown> {
  yield* oddValues
  if (typeof value !== 'object' || value === null) return
  for (const key of Object.keys(value)) {
    const copy = (): Record<string, unknown> => structuredClone(value) as Record<string, unknown>
    const without = copy()
    delete without[key]
    yield Array.isArray(value) ? value.filter((_, index) => String(index) !== key) : without
    yield { ...copy(), [`${key}x`]: 1 }
    for (const other of vary((value as Record<string, unknown>)[key])) {
      const varied = copy()
      varied[key] = other
      yield varied
    }
  }
}

/** The start of each list is like its rest. */
const shorten = (value: unknown): unknown =>
  Array.isArray(value)
    ? value.slice(0, 2).map(shorten)
    : typeof value === 'object' && value !== null
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, shorten(inner)]))
      : value

const fillVariables = (text: string): string =>
  text.replace(/\$\{(\w+)(?::-((?:\$\{\w+\}|[^}])*))?\}/g, (_, name: string, value = '') =>
    value === '' || value.startsWith('$') ? (given[name] ?? 'http://h') : value,
  )

const given: Readonly<Record<string, string>> = { DATABASE_URL: 'postgres://h/d', REDIS_URL: 'redis://h' }

/** The value as well, since a validator adds defaults and makes numbers of texts. */
function judge(validate: ValidateFunction, variant: unknown) {
  const value = structuredClone(variant)
  const isSound = validate(value)
  return { isSound, value, errors: validate.errors, words: describeViolations(validate.errors ?? []) }
}

for (const [schema, options, sample] of schemas)
  t.test(`the validator of a build judges as its schema does: ${schema}`, async (t) => {
    const text = readText(schema)
    const built = at(`dist/schemas/${nameValidator(text, options)}`)
    t.ok(existsSync(built), 'the build has it')
    const { default: fromBuild } = await import(built.href)
    const fromText = createCompiler(options).compile(JSON.parse(text))
    const count = { sound: 0, unsound: 0 }
    for (const variant of vary(shorten(parse(fillVariables(readText(sample)))))) {
      const mine = judge(fromBuild, variant)
      const theirs = judge(fromText, variant)
      count[mine.isSound ? 'sound' : 'unsound'] += 1
      if (!isDeepStrictEqual(mine, theirs)) t.same(mine, theirs, JSON.stringify(variant))
    }
    t.ok(count.unsound > 100, `${count.unsound} refused`)
    t.ok(count.sound > 10, `${count.sound} taken`)
  })

t.test('a build compiles no schema when it starts', async (t) => {
  const loads = schemas.map(
    ([schema, options]) => `compileSchema(new URL(${JSON.stringify(at(schema).href)}), ${JSON.stringify(options)})`,
  )
  const script = `import { compileSchema } from ${JSON.stringify(at('dist/gateway/policy/schema.js').href)}\n${loads.join('\n')}`
  const words = ['--disallow-code-generation-from-strings', '--input-type=module', '--eval', script]
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' })
  t.equal(status, 0, stderr)
})
