import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'

export type DatabaseAccess = Readonly<{ port: number; superuserPassword: string; password: string }>

export const superuser = 'postgres'

const retryMs = 15
const host = '127.0.0.1'
const name = 'sallyport'

export async function createDatabase(access: DatabaseAccess, isAborted: () => boolean): Promise<void> {
  const client = await connectWhenReady(access, isAborted)
  try {
    const password = client.escapeLiteral(access.password)
    // A superuser would bypass grants and policies of PostgreSQL. Tests clone databases and create roles.
    await client.query(`create role ${name} login createdb createrole password ${password}`)
    await client.query(`create database ${name} owner ${name} strategy file_copy`)
  } finally {
    await client.end()
  }
}

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
