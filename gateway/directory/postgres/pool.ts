import pg from 'pg'
import { GatewayError } from '../../errors/gateway-error.ts'
import { guarded } from '../../fault/guarded.ts'
import { createHideUser } from './hide-user.ts'
import { nameQueryFailure, readOnly } from './query-failure.ts'
import { recognizePooler } from './recognize-pooler.ts'
import { askServer, createQuestion, readServer, type Server, type Servers } from './servers.ts'
import { StrictClient } from './strict-client.ts'

export type DatabaseSettings = Readonly<{
  url: string
  /** Whether a pooler at `url` lends its connections for one transaction at a time. */
  pooler: Pooler
  poolSize: number
  /** For a connection, and for a place in the pool. */
  connectTimeoutMs: number
  queryTimeoutMs: number
}>

export type Pooler = 'none' | 'transaction'

/** A statement prepared once on each connection, under its name; through a pooler without one. */
export type Statement = Readonly<{ name: string; text: string }>

export type Query = <Row extends pg.QueryResultRow>(
  statement: Statement,
  values: readonly unknown[],
) => Promise<readonly Row[]>

/** Runs statements on one connection, in one transaction. */
export type Transaction = <Result>(work: (query: Query) => Promise<Result>) => Promise<Result>

/** The connections of the pool, and the statements that wait for one. */
export type PoolState = Readonly<{ open: number; idle: number; waiting: number }>

export type Database = Readonly<{
  query: Query
  transaction: Transaction
  /** Sends several statements without values at once; the first that is refused ends it. */
  script: (statement: Statement) => Promise<void>
  countConnections: () => PoolState
  close: () => Promise<void>
}>

/** Told of every statement that ended, by its name, with what it failed with. */
export type ObserveQuery = (statement: string, ms: number, error?: unknown) => void

export type DatabaseWatch = Readonly<{
  monotonicMs: () => number
  onQuery: ObserveQuery
  /** Told once of a pooler that `pooler` does not name. */
  onUnnamedPooler: (error: Error) => void
  /** Where it matters which server answers. */
  servers?: Pick<Servers, 'requireRecent' | 'noteAnswer'>
}>

const noWatch: DatabaseWatch = { monotonicMs: () => 0, onQuery: () => undefined, onUnnamedPooler: () => undefined }

/** A pool that gives up in time: a frozen server must not freeze requests, and a killed one must not kill us. */
export function openDatabase(
  settings: DatabaseSettings,
  onError: (error: Error) => void,
  watch: DatabaseWatch = noWatch,
): Database {
  const isShared = settings.pooler === 'transaction'
  const pool = new pg.Pool({ ...toPoolConfig(settings), Client: StrictClient })
  const begin = isShared ? `begin; set local statement_timeout = ${settings.queryTimeoutMs}` : 'begin'
  const hideUser = createHideUser(settings.url)
  // An idle connection that breaks is news for the log, not the end of the process.
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
    // The next transaction may be given another connection, where the name is not known, or is another client's.
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
  // The server gives up as well, so that nothing goes on behind our back. PgBouncer refuses it as a parameter of the
  // startup, and hands settings of a session to other clients.
  ...(settings.pooler !== 'transaction' && { statement_timeout: settings.queryTimeoutMs }),
  idleTimeoutMillis: 30_000,
  keepAlive: true,
  application_name: 'sallyport',
})

type Observe = <Result>(statement: string, run: () => Promise<Result>) => Promise<Result>

/** Tells of each statement, and makes its error one that may be written down. */
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

/** One answer, of a server that is known and has what it should have. */
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
 * Works on a connection whose server is known: a primary's stays what it was until the connection ends, and a standby's
 * position is asked before each work, so that the work sees no less. Behind a pooler each transaction may have another.
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

/** Works on a connection of the pool, and gives it back if it is still good for something. */
async function onConnection<Result>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect()
  // The pool listens on idle connections alone. The statement under way rejects by itself; unheard, the event
  // beside it would end the process.
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
    // It may fail once more on its way out.
    client.release(!isGood)
    throw error
  }
}

/** Works on one connection, in one transaction; `work` is given the rows of the last statement of `begin`. */
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
      // Otherwise the connection goes with whatever state it is in, and the server rolls back.
      if (wasAnswered(error)) await client.query('rollback')
      throw error
    }
  })

/** Whether the server is ready for another statement: it refused this one, or the refusal is ours. */
const wasAnswered = (error: unknown): boolean =>
  error instanceof GatewayError || nameQueryFailure(error) === 'statement' || nameQueryFailure(error) === undefined

/** Whatever the reason, the store could not be asked: that is our trouble, and never an answer. */
async function guard<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (error) {
    if (error instanceof GatewayError) throw error
    const isRefused = (error as NodeJS.ErrnoException).code === readOnly
    throw new GatewayError(isRefused ? 'directory_read_only' : 'directory_unavailable', { cause: error })
  }
}
