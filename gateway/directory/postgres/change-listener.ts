import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { type ChangeHandlers, type ChangeSource, parseChange } from '../change.ts'
import { answerTimeoutMs, keepConnected, type Link, type LinkEvents } from '../keep-connected.ts'

/** Where the triggers of the migrations send. */
const channel = 'sallyport_changes'

const farewellMs = 500

export type ListenerSettings = Readonly<{ url: string; connectTimeoutMs: number; monotonicMs: () => number }>

/** Hears every committed change of the directory's tables, whoever made it, on a connection of its own. */
export function listenToPostgres(settings: ListenerSettings, handlers: ChangeHandlers): ChangeSource {
  const connect = (events: LinkEvents): Promise<Link> => openLink(settings, events, handlers)
  return { name: 'postgres', ...keepConnected(connect, { handlers, monotonicMs: settings.monotonicMs }) }
}

async function openLink(
  { url, connectTimeoutMs }: ListenerSettings,
  events: LinkEvents,
  handlers: ChangeHandlers,
): Promise<Link> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: answerTimeoutMs,
    keepAlive: true,
    application_name: 'sallyport changes',
  })
  client.on('error', events.onBroken)
  client.on('end', () => events.onBroken(new Error('the connection ended')))
  const close = (): void => {
    client.end().catch(() => undefined)
    // A frozen server answers no farewell; the socket must not wait for one.
    setTimeout(() => client.connection.stream.destroy(), farewellMs).unref()
  }
  try {
    await client.connect()
    await proveDelivery(client)
    client.on('notification', ({ channel: from, payload = '' }) => {
      if (from === channel) handlers.onChange(parseChange(payload))
    })
    await client.query(`listen ${channel}`)
  } catch (error) {
    close()
    throw error
  }
  return {
    // What was committed before the question is delivered before its answer.
    probe: () => askWhetherReady(client),
    close,
  }
}

/**
 * Sends a notification to ourselves: a connection pooler that shares connections between clients takes a LISTEN
 * without a word, and delivers nothing.
 */
async function proveDelivery(client: pg.Client): Promise<void> {
  const own = `sallyport_probe_${randomBytes(8).toString('hex')}`
  let isDelivered = false
  const listen = ({ channel: from }: pg.Notification): void => {
    isDelivered ||= from === own
  }
  client.on('notification', listen)
  await client.query(`listen ${own}`)
  await client.query(`notify ${own}`)
  await client.query(`unlisten ${own}`)
  client.off('notification', listen)
  if (!isDelivered) throw new Error('notifications are not delivered; set database.listenUrl to PostgreSQL itself')
}

/** The shortest round trip of the protocol, Sync and ReadyForQuery: no statement is run, no transaction begun. */
const askWhetherReady = (client: pg.Client): Promise<void> =>
  new Promise((resolve, reject) => {
    const question = {
      // pg wraps it for its time-out.
      callback: (error?: Error) => (error ? reject(error) : resolve()),
      submit: (connection: pg.Connection) => connection.sync(),
      handleError: (error: Error) => question.callback(error),
      handleReadyForQuery: () => question.callback(),
    }
    client.query(question)
  })
