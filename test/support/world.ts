import { generateKeyPairSync, randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { Test } from 'tap'
import type { RecordedRequest } from '../../demo/backends/record-requests.ts'
import { type EmbeddedPostgres, type EmbeddedPostgresOptions, startPostgres } from '../../demo/postgres.ts'
import { heartbeat, type Population } from '../../demo/seed.ts'
import { type populate, startWorld, type World, type WorldOptions } from '../../demo/world.ts'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { startGateway } from '../../gateway/run/boot/gateway.ts'
import { type Answer, type Call, call, callRaw } from './client.ts'
import { withSmallCaches } from './gateway.ts'
import { column } from './press/column.ts'
import { frontFor } from './press/tls-ends.ts'
import { pressDemo, spawnPressed } from './press/world-gateway.ts'

export type { RecordedRequest }

/** A demo world of a test file's own, and the ways to speak to it. */
export type TestWorld = World['description'] &
  Readonly<{
    world: World
    directory: string
    /** One request to the public listener. */
    call: (call: Call) => Promise<Answer>
    /** Bytes on a socket of their own, and everything that came back until the other side closed or fell silent. */
    raw: (bytes: string | Buffer, silenceMs?: number) => Promise<string>
    recorded: () => Promise<readonly RecordedRequest[]>
    clearRecorder: () => Promise<void>
    /** For how long a gateway of a test waits for the database. */
    patience: DatabasePatience
    mint: (request: Readonly<Record<string, unknown>>) => Promise<string>
  }>

export type DatabasePatience = Readonly<{ connectTimeoutMs?: number; queryTimeoutMs?: number }>

/** On a busy machine a query may take a second. A server of a file's own may be frozen, and then the usual limits count. */
export const patience: DatabasePatience = { connectTimeoutMs: 15_000, queryTimeoutMs: 15_000 }

export type TestWorldOptions = Readonly<{
  /** A database server that the file may stop, freeze or reconfigure. */
  hasOwnServer?: boolean
  /** A gateway in a process of its own, which logs to `gateway.log` of the directory. */
  hasOwnProcess?: boolean
}>

/** Starts a world on free ports and stops it with the test. */
export async function startTestWorld(t: Test, options: TestWorldOptions = {}): Promise<TestWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  const server = options.hasOwnServer ? undefined : sharedServer
  const world = await startWorld({
    directory,
    ports: { public: 0, decision: 0, admin: 0 },
    notify: (text) => t.comment(text),
    issuerOptions: { key: drawIssuerKey() },
    startDatabase: () =>
      server === undefined ? startTestPostgres({ onUnexpectedExit: (text) => t.comment(text) }) : cloneDatabase(server),
    ...(server !== undefined && { populate: addressPopulation }),
    ...chooseGateway(options),
  })
  t.teardown(async () => {
    await world.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  const { description } = world
  const { recorder } = description.backends
  return {
    ...description,
    world,
    directory,
    call: (request) => call(description.public, request),
    raw: (bytes, silenceMs) => callRaw(description.public, bytes, silenceMs),
    patience: options.hasOwnServer ? {} : patience,
    recorded: async () => (await fetch(`${recorder}/requests`)).json() as Promise<readonly RecordedRequest[]>,
    clearRecorder: async () => {
      await fetch(`${recorder}/requests`, { method: 'DELETE' })
    },
    mint: async (request) => {
      const answer = await fetch(description.oidc.mintUrl, { method: 'POST', body: JSON.stringify(request) })
      const { jwt } = (await answer.json()) as { jwt: string }
      return jwt
    },
  }
}

/** A column of the drill presses on gateways of its own making. */
function chooseGateway({ hasOwnServer, hasOwnProcess }: TestWorldOptions): Pick<WorldOptions, 'runGateway'> {
  const isHere = sharedServer !== undefined && !hasOwnProcess
  if (isHere && column !== 'workers') return { runGateway: startGatewayHere(hasOwnServer ? {} : patience) }
  return column === undefined ? {} : { runGateway: spawnPressed }
}

/** A server of a file's own, with its files in memory where the machine has room. */
export function startTestPostgres(options: EmbeddedPostgresOptions = {}): Promise<EmbeddedPostgres> {
  const root = process.env.SALLYPORT_TEST_MEMORY
  return startPostgres({ ...options, ...(root !== undefined && { root }) })
}

let issuerKey: Readonly<Record<string, unknown>> | undefined

/** One for all worlds of a process: to draw it takes longer than all else of an issuer. */
function drawIssuerKey(): Readonly<Record<string, unknown>> {
  const draw = () => generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export({ format: 'jwk' })
  issuerKey ??= { ...draw(), alg: 'RS256', kid: randomUUID() }
  return issuerKey
}

/** The server of the run, whose database `sallyport` has the demo's population; a lone file starts its own. */
const sharedServer = process.env.SALLYPORT_TEST_DATABASE

/** Tells a clone of that database the addresses of its world. To write all else again takes sixty statements. */
const addressPopulation: typeof populate = async (url, issuer, { healthy, globex, unreachable }) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('update user_identities set issuer = $1', [issuer])
    await client.query(
      `update clusters set base_url = case slug when 'globex' then $1 when 'unreachable' then $2 else $3 end`,
      [globex, unreachable, healthy],
    )
    await client.query(heartbeat)
  } finally {
    await client.end()
  }
  return JSON.parse(process.env.SALLYPORT_TEST_POPULATION ?? '{}') as Population
}

/** The URL of an empty database. One of the run's server stays there: no role may end the connections of another. */
export async function startTestDatabase(t: Test): Promise<string> {
  if (sharedServer !== undefined) return (await cloneDatabase(sharedServer, 'template1')).url
  const postgres = await startTestPostgres()
  t.teardown(() => postgres.stop())
  return postgres.url
}

async function cloneDatabase(server: string, template = 'sallyport'): Promise<EmbeddedPostgres> {
  const name = `world_${randomBytes(6).toString('hex')}`
  // A database in use can't be copied, so statements about databases come from another.
  const own = new URL(server)
  own.pathname = '/postgres'
  const administer = async (statement: string): Promise<void> => {
    const client = new pg.Client({ connectionString: own.href })
    await client.connect()
    await client.query(statement).finally(() => client.end())
  }
  await administer(`create database ${name} template ${template} strategy file_copy`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return {
    url: url.href,
    pid: () => undefined,
    stop: () => administer(`drop database ${name} with (force)`),
  }
}

const startGatewayHere =
  (database: DatabasePatience): NonNullable<WorldOptions['runGateway']> =>
  async (_logFile, environment) => {
    const configuration = withSmallCaches(loadConfiguration(pressDemo(environment), { ...process.env, ...environment }))
    const gateway = await startGateway({
      ...configuration,
      ...(configuration.database && { database: { ...configuration.database, ...database } }),
      log: { ...configuration.log, level: 'silent' },
    })
    const ends: (() => unknown)[] = []
    const toUrl = ({ host, port }: Readonly<{ host: string; port: number }>): string => `http://${host}:${port}`
    return {
      pid: process.pid,
      public: await frontFor({ teardown: (end) => ends.push(end) }, toUrl(gateway.public)),
      decision: toUrl(gateway.decision),
      admin: toUrl(gateway.admin),
      ended: new Promise(() => undefined),
      stop: async () => {
        for (const end of ends) end()
        await gateway.drain({ delayMs: 0, timeoutMs: 0 })
        return 0
      },
    }
  }

/** The header of a user's OAuth token. */
export const oauth = ({ jwt }: { jwt: string }): Record<string, string> => ({ 'x-oauth-access-token': jwt })

/** The header of an API token. */
export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
