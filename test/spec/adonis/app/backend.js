// An AdonisJS application, told by its standard input what to do: one JSON array a line, [what, …arguments]. Its first
// answer is that its tables are there, made by the migrations that AdonisJS' own packages write.
import { writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const [, , typescriptFile] = process.argv
const root = pathToFileURL(`${process.cwd()}/`)

const { Ignitor } = await import('@adonisjs/core')
const ignitor = new Ignitor(root, {
  importer: (path) => import(path.startsWith('.') ? new URL(path, root).href : path),
})
const app = ignitor.createApp('console')
await app.init()
await app.boot()
await app.start(() => {})

/** Writes the files of `node ace configure @adonisjs/auth` in JavaScript. */
async function writeStub(name, file, entity) {
  const source = new URL('node_modules/@adonisjs/presets/build/src/auth/stubs', root).pathname
  const stub = await (await app.stubs.create()).build(name, { source })
  const { contents } = await stub.prepare({ entity: app.generators.createEntity(entity), migration })
  const { default: ts } = await import(pathToFileURL(typescriptFile).href)
  const compilerOptions = {
    target: 'ES2022',
    module: 'ESNext',
    experimentalDecorators: true,
    useDefineForClassFields: false,
  }
  writeFileSync(file, ts.transpileModule(contents, { compilerOptions }).outputText)
}

const migration = { folder: 'database/migrations', fileName: 'x.ts' }
await writeStub('make/migration/users.stub', 'database/migrations/1_create_users_table.js', 'users')
await writeStub(
  'make/migration/access_tokens.stub',
  'database/migrations/2_create_access_tokens_table.js',
  'access_tokens',
)
await writeStub('make/model/user_with_access_tokens.stub', 'user.js', 'users')

const { MigrationRunner } = await import('@adonisjs/lucid/migration')
const database = await app.container.make('lucid.db')
const migrator = new MigrationRunner(database, app, { direction: 'up', dryRun: false })
await migrator.run()
if (migrator.error) throw migrator.error

const { default: User } = await import('./user.js')
const { DbAccessTokensProvider } = await import('@adonisjs/auth/access_tokens')
const { Secret } = await import('@adonisjs/core/helpers')
const hash = await app.container.make('hash')

const describe = (token) =>
  token && {
    id: token.identifier,
    userId: token.tokenableId,
    name: token.name,
    abilities: token.abilities,
    expiresAt: token.expiresAt,
    allowsReading: token.allows('datasets:read'),
    allowsWriting: token.allows('datasets:write'),
  }

const work = {
  mint: async (userId, abilities, options) => {
    const token = await User.accessTokens.create(await User.findOrFail(userId), abilities, options)
    return { ...describe(token), value: token.value.release() }
  },
  /** A token of another purpose in the same table. */
  mintOther: async (userId, type) => {
    const tokens = DbAccessTokensProvider.forModel(User, { type })
    return (await tokens.create(await User.findOrFail(userId))).value.release()
  },
  verify: async (value) => describe(await User.accessTokens.verify(new Secret(value))),
  delete: async (userId, id) => User.accessTokens.delete(await User.findOrFail(userId), id),
  list: async (userId) => (await User.accessTokens.all(await User.findOrFail(userId))).map(describe),
  createUser: async (fields) => (await User.create(fields)).id,
  checkPassword: async (email, password) => {
    const user = await User.findByOrFail('email', email)
    return hash.verify(user.password, password)
  },
}

const answer = (value) => process.stdout.write(`${JSON.stringify(value ?? null)}\n`)
answer('ready')
for await (const line of createInterface(process.stdin)) {
  const [what, ...values] = JSON.parse(line)
  try {
    answer({ value: await work[what](...values) })
  } catch (error) {
    answer({ error: String(error) })
  }
}
await database.manager.closeAll()
process.exit(0)
