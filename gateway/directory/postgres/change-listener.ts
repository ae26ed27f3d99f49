import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { guarded } from '../../base/fault/guarded.ts'
import type { ChangeHandlers, ChangeSource } from '../change.ts'
import { createChangeQueue } from '../change-queue.ts'
import {
  answerTimeoutMs,
  type LinkEvents,
  type ListeningConnection,
  maintainConnection,
} from '../maintain-connection.ts'
import { createHideUser } from './hide-user.ts'
import { askServer, createQuestion, type Server, type Servers } from './servers.ts'
import { StrictClient } from './strict-client.ts'
import { findTablesWithoutTriggers } from './tables-without-triggers.ts'

const channel = 'sallyport_changes'

/** A fixed name, because a pooler's connections would collect random ones. */
const probeChannel = 'sallyport_probe'

/** A server that lives closes within a round trip. */
const closeTimeoutMs = 500

export type ChangeListenerOptions = Readonly<{
  url: string
  connectTimeoutMs: number
  monotonicMs: () => number
  servers: Pick<Servers, 'noteListening' | 'notePosition' | 'wantsPositions'>
}>

export function listenToPostgres(settings: ChangeListenerOptions, handlers: ChangeHandlers): ChangeSource {
  const connect = (events: LinkEvents): Promise<ListeningConnection> => openLink(settings, events, handlers)
  const hideUser = createHideUser(settings.url)
  const onLost = (error: unknown): void => {
    settings.servers.noteListening(undefined)
    handlers.onLost(hideUser(error))
  }
  const kept = maintainConnection(connect, { handlers: { ...handlers, onLost }, monotonicMs: settings.monotonicMs })
  return { name: 'postgres', ...kept }
}

async function openLink(
  settings: ChangeListenerOptions,
  events: LinkEvents,
  handlers: ChangeHandlers,
): Promise<ListeningConnection> {
  const client = createClient(settings)
  client.on('error', guarded('directory', events.onBroken))
  client.on(
    'end',
    guarded('directory', () => events.onBroken(new Error('the connection ended'))),
  )
  const close = (): void => closeGracefully(client)
  const { servers, monotonicMs } = settings
  const lost = (): void => events.onBroken(new Error('a change could not be taken'))
  const changes = createChangeQueue(handlers.onChange, lost, handlers.onUnreadable)
  const question = createQuestion()
  let probes = 0
  const describe = (): Promise<Server> => askServer(client, question)
  try {
    await client.connect()
    servers.noteListening(await describe())
    await requireTriggers(client)
    await proveDelivery(client, settings)
    const take = ({ channel: from, payload = '' }: pg.Notification): void => {
      if (from === channel) changes.hear(payload)
    }
    client.on('notification', guarded('directory', take, lost))
    await client.query(`listen ${channel}`)
  } catch (error) {
    close()
    throw error
  }
  return {
    // PostgreSQL delivers changes committed before this query before its result.
    probe: async () => {
      const askedAtMs = monotonicMs()
      const asksOfQueue = probes % probesOfQueue === 0
      probes += 1
      // The queue fills over minutes, and a statement costs a server more than the shortest round trip.
      if (asksOfQueue) await requireRoom(client)
      if (servers.wantsPositions()) servers.notePosition(askedAtMs, await describe())
      else if (!asksOfQueue) await askWhetherReady(client)
      await changes.passed()
    },
    close,
  }
}

const createClient = ({ url, connectTimeoutMs }: ChangeListenerOptions): pg.Client =>
  new StrictClient({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: answerTimeoutMs,
    keepAlive: true,
    application_name: 'sallyport changes',
  })

function closeGracefully(client: pg.Client): void {
  client.end().catch(() => undefined)
  // A frozen server does not close its side, so the socket is destroyed.
  setTimeout(() => client.connection.stream.destroy(), closeTimeoutMs).unref()
}

/** An unmigrated database, or one with disabled triggers, sends nothing, and silence would read as "no change". */
async function requireTriggers(client: pg.Client): Promise<void> {
  const silent = await findTablesWithoutTriggers(client)
  if (silent.length === 0) return
  const names = [...new Set(silent.map(({ table }) => table))].join(', ')
  throw new Error(`no triggers tell of changes to ${names}; run "sallyport migrate" or "sallyport directory check"`)
}

/**
 * Checks that a notification from another connection arrives while this one is idle. A pooler that shares connections
 * accepts LISTEN, but delivers only during the client's own queries.
 */
async function proveDelivery(client: pg.Client, settings: ChangeListenerOptions): Promise<void> {
  const own = randomBytes(8).toString('hex')
  await client.query(`listen ${probeChannel}`)
  await Promise.all([waitForDelivery(client, own), sendProbe(own, settings)])
  await client.query(`unlisten ${probeChannel}`)
}

const waitForDelivery = (client: pg.Client, own: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const take = ({ channel: from, payload }: pg.Notification): void => {
      if (from === probeChannel && payload === own) resolve()
    }
    client.on('notification', guarded('directory', take))
    const message = 'notifications are not delivered; set database.listenUrl to PostgreSQL itself'
    setTimeout(() => reject(new Error(message)), answerTimeoutMs).unref()
  })

async function sendProbe(payload: string, settings: ChangeListenerOptions): Promise<void> {
  const sender = createClient(settings)
  sender.on('error', () => undefined)
  try {
    await sender.connect()
    await sender.query(`notify ${probeChannel}, '${payload}'`)
  } finally {
    closeGracefully(sender)
  }
}

/** The shortest round trip of the protocol (Sync and ReadyForQuery), without a statement or a transaction. */
const askWhetherReady = (client: pg.Client): Promise<void> =>
  new Promise((resolve, reject) => {
    const question = {
      callback: (error?: Error) => (error ? reject(error) : resolve()),
      submit: (connection: pg.Connection) => connection.sync(),
      handleError: (error: Error) => question.callback(error),
      handleReadyForQuery: () => question.callback(),
    }
    client.query(question)
  })

/** One probe in so many asks for the queue too: about once a second. */
const probesOfQueue = 4

/**
 * A commit fails on a full queue, which a session that listens in a long transaction makes. Triggers stop telling before
 * that, at three quarters: from half on nothing is believed because it was heard.
 */
const fullestQueue = 0.5

async function requireRoom(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ usage: number }>('select pg_notification_queue_usage() as usage')
  const usage = rows[0]?.usage ?? 1
  if (usage <= fullestQueue) return
  const percent = Math.round(usage * 100)
  throw new Error(
    `the queue of notifications is ${percent} % full: end the session that listens in an open transaction`,
  )
}
