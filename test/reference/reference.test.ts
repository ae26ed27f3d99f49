import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { generatedMark } from './markdown.ts'
import { composeReference, documentsFolder, readCommands } from './reference.ts'
import { listKeys, readSchema, type SchemaKey } from './schema-keys.ts'

t.test('every generated page is what the sources say now', async (t) => {
  const pages = await composeReference()
  for (const [name, text] of Object.entries(pages)) {
    const file = new URL(name, documentsFolder)
    t.equal(existsSync(file) && readFileSync(file, 'utf8') === text, true, `${name} is old: run npm run reference`)
  }
  const generated = readdirSync(documentsFolder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.md') && readFileSync(new URL(name, documentsFolder), 'utf8').includes(generatedMark),
  )
  t.same(generated.sort(), Object.keys(pages).sort(), 'no page is left of an earlier generator')
})

const flatten = (keys: readonly SchemaKey[]): readonly SchemaKey[] =>
  keys.flatMap((key) => [key, ...flatten(key.children)])

for (const schema of ['config/gateway.schema.json', 'policies/policy.schema.json', 'policies/policy-test.schema.json'])
  t.test(`every key of ${schema} says what it is for`, async (t) => {
    const keys = flatten(listKeys(readSchema(schema)))
    t.ok(keys.length > 10)
    t.same(
      keys.filter(({ description }) => description === undefined).map(({ path }) => path),
      [],
    )
  })

t.test('every key of the configuration that has neither a default nor keys below has an example', async (t) => {
  const bare = flatten(listKeys(readSchema('config/gateway.schema.json'))).filter(
    ({ children, defaultValue, example }) =>
      children.length === 0 && (defaultValue === undefined || defaultValue === '') && example === undefined,
  )
  t.same(
    bare.map(({ path }) => path),
    [],
  )
})

t.test('every command describes itself, its options and an example', async (t) => {
  const commands = await readCommands()
  t.ok(commands.length > 15)
  t.notOk(commands.some(({ name }) => name === 'sallyport reference'))
  for (const { name, description, options, examples } of commands) {
    t.ok(description, name)
    t.ok(examples.length > 0, `${name} has an example`)
    for (const option of options) t.ok(option.description, `${name} ${option.flags}`)
  }
})
