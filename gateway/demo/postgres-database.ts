import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'

/** The server's address and the passwords of its two roles. */
export type DatabaseAccess = Readonly<{ port: number; superuserPassword: string; password: string }>

/** The role that starts the server and owns its catalogue; nobody is told its password. */
export const superuser = 'postgres'

const retryMs = 15
const host = '127.0.0.1'
const name = 'sallyport'

/** Connects as soon as the server lets us, and creates the database and the role that owns it. */
export async function createDatabase(access: DatabaseAccess, isAborted: () => boolean): Promise<void> {
  const client = await connectWhenReady(access, isAborted)
  try {
    const password = client.escapeLiteral(access.password)
    // Not a superuser, or row-level security and grants would never be tried; tests clone databases and make roles.
    await client.query(`create role ${name} login createdb createrole password ${password}`)
    await client.query(`create database ${name} owner ${name} strategy file_copy`)
  } finally {
    await client.end()
  }
}

/** Where programs connect. */
export function databaseUrl({ port, password }: DatabaseAccess): string {
  return `postgres://${name}:${password}@${host}:${port}/${name}`
}

async function connectWhenReady(access: DatabaseAccess, isAborted: () => boolean): Promise<pg.Client> {
  for (;;) {
    const client = new pg.Client({
      host,
      port: access.port,
      user: superuser,
      password: access.superuserPassword,
      database: 'postgres',
      connectionTimeoutMillis: 5000,
    })
    // Its queries fail by themselves when the server goes; without a listener this would end our process.
    client.on('error', () => undefined)
    try {
      await client.connect()
      return client
    } catch (cause) {
      if (isAborted()) throw new Error('PostgreSQL did not become ready', { cause })
    }
    await delay(retryMs)
  }
}
