import pg from 'pg'
import { GatewayError } from '../../base/errors/gateway-error.ts'
import { guarded } from '../../base/fault/guarded.ts'
import { createHideUser } from './hide-user.ts'
import { nameQueryFailure, readOnly } from './query-failure.ts'
import { recognizePooler } from './recognize-pooler.ts'
import { askServer, createQuestion, readServer, type Server, type Servers } from './servers.ts'
import { StrictClient } from './strict-client.ts'

export type DatabaseSettings = Readonly<{
  url: string
  pooler: Pooler
  poolSize: number
  connectTimeoutMs: number
  queryTimeoutMs: number
}>

export type Pooler = 'none' | 'transaction'

export type Statement = Readonly<{ name: string; text: string }>

export type Query = <Row extends pg.QueryResultRow>(
  statement: Statement,
  values: readonly unknown[],
) => Promise<readonly Row[]>

export type Transaction = <Result>(work: (query: Query) => Promise<Result>) => Promise<Result>

export type PoolState = Readonly<{ open: number; idle: number; waiting: number }>

export type Database = Readonly<{
  query: Query
  transaction: Transaction
  script: (statement: Statement) => Promise<void>
  countConnections: () => PoolState
  close: () => Promise<void>
}>

export type ObserveQuery = (statement: string, ms: number, error?: unknown) => void

export type DatabaseWatch = Readonly<{
  monotonicMs: () => number
  onQuery: ObserveQuery
  onUnnamedPooler: (error: Error) => void
  servers?: Pick<Servers, 'requireRecent' | 'noteAnswer'>
}>

const noWatch: DatabaseWatch = { monotonicMs: () => 0, onQuery: () => undefined, onUnnamedPooler: () => undefined }

/** A pool with time-outs: a frozen server must not freeze requests, and a killed one must not end this process. */
export function openDatabase(
  settings: DatabaseSettings,
  onError: (error: Error) => void,
  watch: DatabaseWatch = noWatch,
): Database {
  const isShared = settings.pooler === 'transaction'
  const pool = new pg.Pool({ ...toPoolConfig(settings), Client: StrictClient })
  const begin = isShared ? `begin; set local statement_timeout = ${settings.queryTimeoutMs}` : 'begin'
  const hideUser = createHideUser(settings.url)
  // A broken idle connection goes to the log; without a listener it would end the process.
  pool.on(
    'error',
    guarded('directory', (error: Error) => onError(hideUser(error))),
  )
  const observe = createObserve(watch, isShared, hideUser)
  const run = async <Row extends pg.QueryResultRow>(
    client: pg.PoolClient,
    { name, text }: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> => {
    // The pooler may give the next transaction another connection, where the name is unknown or another client's.
    const { rows } = await client.query<Row>({ ...(!isShared && { name }), text, values: [...values] })
    return rows
  }
  const ask = createAsk(pool, begin, isShared, watch.servers)
  return {
    query: (statement, values) => guard(observe(statement.name, () => ask((client) => run(client, statement, values)))),
    transaction: (work) =>
      guard(
        inTransaction(pool, begin, (client) =>
          work((statement, values) => observe(statement.name, () => run(client, statement, values))),
        ).catch((error: unknown) => {
          throw hideUser(error)
        }),
      ),
    script: ({ name, text }) =>
      guard(
        observe(name, async () => {
          await ask((client) => client.query(text))
        }),
      ),
    countConnections: () => ({ open: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  }
}

const toPoolConfig = (settings: DatabaseSettings): pg.PoolConfig => ({
  connectionString: settings.url,
  max: settings.poolSize,
  connectionTimeoutMillis: settings.connectTimeoutMs,
  query_timeout: settings.queryTimeoutMs,
  // The server stops too, so that no statement runs on unnoticed. PgBouncer refuses this parameter at startup and
  // passes session settings on to other clients.
  ...(settings.pooler !== 'transaction' && { statement_timeout: settings.queryTimeoutMs }),
  idleTimeoutMillis: 30_000,
  keepAlive: true,
  application_name: 'sallyport',
})

type Observe = <Result>(statement: string, run: () => Promise<Result>) => Promise<Result>

function createObserve(
  { monotonicMs, onQuery, onUnnamedPooler }: DatabaseWatch,
  isShared: boolean,
  hideUser: ReturnType<typeof createHideUser>,
): Observe {
  let isPoolerTold = false
  const explain = (error: unknown): unknown => {
    const unnamed = isShared ? undefined : recognizePooler(error)
    if (unnamed && !isPoolerTold) onUnnamedPooler(unnamed)
    isPoolerTold ||= unnamed !== undefined
    return unnamed ?? error
  }
  return async (statement, run) => {
    const startedMs = monotonicMs()
    try {
      const result = await run()
      onQuery(statement, monotonicMs() - startedMs)
      return result
    } catch (error) {
      onQuery(statement, monotonicMs() - startedMs, error)
      throw explain(hideUser(error))
    }
  }
}

type OnConnection = <Result>(work: (client: pg.PoolClient) => Promise<Result>) => Promise<Result>

function createAsk(pool: pg.Pool, begin: string, isShared: boolean, servers: DatabaseWatch['servers']): OnConnection {
  if (!servers) return (work) => (isShared ? inTransaction(pool, begin, work) : onConnection(pool, work))
  const identify = createIdentify(pool, begin, isShared)
  return (work) =>
    identify(async (client, server) => {
      servers.requireRecent(server)
      const result = await work(client)
      servers.noteAnswer(server)
      return result
    })
}

type WithServer = <Result>(work: (client: pg.PoolClient, server: Server) => Promise<Result>) => Promise<Result>

/**
 * Runs work on a connection whose server is known. A primary stays one until its connection ends. A standby's position
 * is read before each work, so that the work sees at least that state. Behind a pooler each transaction may have
 * another server.
 */
function createIdentify(pool: pg.Pool, begin: string, isShared: boolean): WithServer {
  const primaries = new WeakMap<pg.PoolClient, Server>()
  const question = createQuestion()
  if (!isShared)
    return (work) =>
      onConnection(pool, async (client) => {
        const known = primaries.get(client)
        if (known) return work(client, known)
        const server = await askServer(client, question)
        if (!server.isStandby) primaries.set(client, server)
        return work(client, server)
      })
  return async (work) => {
    for (;;) {
      const asked = question.text()
      let isBegun = false
      try {
        return await inTransaction(pool, `${begin}; ${asked}`, (client, begun) => {
          isBegun = true
          return work(client, readServer(begun))
        })
      } catch (error) {
        if (isBegun || !question.reduce(asked, error)) throw error
      }
    }
  }
}

async function onConnection<Result>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect()
  // The pool handles errors of idle connections alone. A statement under way rejects by itself, but without a listener
  // the `error` event would end the process.
  const ignore = (): void => {}
  client.on('error', ignore)
  try {
    const result = await work(client)
    client.off('error', ignore)
    client.release()
    return result
  } catch (error) {
    const isGood = wasAnswered(error)
    if (isGood) client.off('error', ignore)
    client.release(!isGood)
    throw error
  }
}

const inTransaction = <Result>(
  pool: pg.Pool,
  begin: string,
  work: (client: pg.PoolClient, begun: readonly unknown[]) => Promise<Result>,
): Promise<Result> =>
  onConnection(pool, async (client) => {
    try {
      const begun: pg.QueryResult | pg.QueryResult[] = await client.query(begin)
      const result = await work(client, [begun].flat().at(-1)?.rows ?? [])
      await client.query('commit')
      return result
    } catch (error) {
      if (wasAnswered(error)) await client.query('rollback')
      throw error
    }
  })

const wasAnswered = (error: unknown): boolean =>
  error instanceof GatewayError || nameQueryFailure(error) === 'statement' || nameQueryFailure(error) === undefined

/** Any other failure means that the store could not be asked, and never that it said no. */
async function guard<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (error) {
    if (error instanceof GatewayError) throw error
    const isRefused = (error as NodeJS.ErrnoException).code === readOnly
    throw new GatewayError(isRefused ? 'directory_read_only' : 'directory_unavailable', { cause: error })
  }
}
