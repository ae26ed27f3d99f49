import pg from 'pg'
import { GatewayError } from '../../errors/gateway-error.ts'

export type DatabaseSettings = Readonly<{
  url: string
  poolSize: number
  /** For a connection, and for a place in the pool. */
  connectTimeoutMs: number
  queryTimeoutMs: number
}>

/** A statement prepared once on each connection, under its name. */
export type Statement = Readonly<{ name: string; text: string }>

export type Query = <Row extends pg.QueryResultRow>(
  statement: Statement,
  values: readonly unknown[],
) => Promise<readonly Row[]>

/** Runs statements on one connection, in one transaction. */
export type Transaction = <Result>(work: (query: Query) => Promise<Result>) => Promise<Result>

/** The connections of the pool, and the statements that wait for one. */
export type PoolCounts = Readonly<{ open: number; idle: number; waiting: number }>

export type Database = Readonly<{
  query: Query
  transaction: Transaction
  countConnections: () => PoolCounts
  close: () => Promise<void>
}>

/** Told of every statement that ended, by its name, with what it failed with. */
export type ObserveQuery = (statement: string, ms: number, error?: unknown) => void

export type DatabaseWatch = Readonly<{ monotonicMs: () => number; onQuery: ObserveQuery }>

const noWatch: DatabaseWatch = { monotonicMs: () => 0, onQuery: () => undefined }

/** A pool that gives up in time: a frozen server must not freeze requests, and a killed one must not kill us. */
export function openDatabase(
  settings: DatabaseSettings,
  onError: (error: Error) => void,
  { monotonicMs, onQuery }: DatabaseWatch = noWatch,
): Database {
  const pool = new pg.Pool({
    connectionString: settings.url,
    max: settings.poolSize,
    connectionTimeoutMillis: settings.connectTimeoutMs,
    query_timeout: settings.queryTimeoutMs,
    // The server gives up as well, so that nothing goes on behind our back.
    statement_timeout: settings.queryTimeoutMs,
    idleTimeoutMillis: 30_000,
    keepAlive: true,
    application_name: 'sallyport',
  })
  // An idle connection that breaks is news for the log, not the end of the process.
  pool.on('error', onError)
  const queryOn =
    (runner: Pick<pg.Pool, 'query'> | pg.PoolClient): Query =>
    async <Row extends pg.QueryResultRow>(statement: Statement, values: readonly unknown[]) => {
      const startedMs = monotonicMs()
      try {
        const { rows } = await runner.query<Row>({ name: statement.name, text: statement.text, values: [...values] })
        onQuery(statement.name, monotonicMs() - startedMs)
        return rows
      } catch (error) {
        onQuery(statement.name, monotonicMs() - startedMs, error)
        throw error
      }
    }
  return {
    query: (statement, values) => guard(queryOn(pool)(statement, values)),
    transaction: (work) => guard(inTransaction(pool, (client) => work(queryOn(client)))),
    countConnections: () => ({ open: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }),
    close: () => pool.end(),
  }
}

async function inTransaction<Result>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<Result>): Promise<Result> {
  const client = await pool.connect()
  // The pool listens on idle connections alone. The statement under way rejects by itself; unheard, the event
  // beside it would end the process.
  const ignore = (): void => {}
  client.on('error', ignore)
  try {
    await client.query('begin')
    const result = await work(client)
    await client.query('commit')
    client.off('error', ignore)
    client.release()
    return result
  } catch (error) {
    // The connection goes with whatever state it is in; the server rolls back. It may fail once more on its way out.
    client.release(true)
    throw error
  }
}

/** Whatever the reason, the store could not be asked: that is our trouble, and never an answer. */
async function guard<Result>(result: Promise<Result>): Promise<Result> {
  try {
    return await result
  } catch (error) {
    if (error instanceof GatewayError) throw error
    throw new GatewayError('directory_unavailable', { cause: error })
  }
}
