import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t from 'tap'
import { startPostgres } from '../../demo/postgres.ts'

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'

t.test(
  'the server answers on loopback as a plain user, and stop leaves no process and no directory',
  { skip },
  async (t) => {
    const database = await startPostgres()
    t.teardown(database.stop)
    t.match(database.url, /^postgres:\/\/sallyport:[\w-]{20,}@127\.0\.0\.1:\d+\/sallyport$/)
    const { rows } = await query(
      database.url,
      `select current_setting('server_version_num')::int / 10000 as version, current_user as user, rolsuper as super
     from pg_roles where rolname = current_user`,
    )
    t.same(rows, [{ version: 18, user: 'sallyport', super: false }])
    await query(database.url, 'create database clone template sallyport strategy file_copy')
    const stranger = new URL(database.url)
    stranger.password = 'guessed'
    await t.rejects(query(stranger.href, 'select 1'), { code: '28P01' }, 'no client comes in without the password')

    const pid = database.pid()
    const directory = await directoryOf(pid)
    await Promise.all([database.stop(), database.stop()])
    t.notOk(isAlive(pid))
    t.same(await processesNaming(directory), [])
    await t.rejects(readdir(directory), { code: 'ENOENT' })
    t.equal(database.pid(), undefined)
  },
)

t.test('a server killed by an operator comes back on its port with its data', async (t) => {
  const details: string[] = []
  const database = await startPostgres({ onUnexpectedExit: (detail) => details.push(detail) })
  t.teardown(database.stop)
  await query(database.url, "create table kept as select 'here' as word")
  const killed = database.pid()
  process.kill(Number(killed), 'SIGKILL')

  const { rows } = await retry(() => query(database.url, 'select word from kept'))
  t.same(rows, [{ word: 'here' }])
  t.not(database.pid(), killed)
  t.match(details, [/^PostgreSQL was ended by SIGKILL; starting it again in 3 s$/])

  process.kill(Number(database.pid()), 'SIGKILL')
  await until(() => database.pid() === undefined)
  const url = database.url
  await database.stop()
  await delay(3500)
  await t.rejects(query(url, 'select 1'), { code: 'ECONNREFUSED' }, 'a stop calls the restart off')
})

t.test('a crashed owner leaves no server, no directory and none of its files', { skip }, async (t) => {
  const file = join(t.testdir({}), 'demo.json')
  await writeFile(file, '{}')
  const owner = spawn(
    process.execPath,
    [...process.execArgv, fileURLToPath(new URL('./crashing-owner.ts', import.meta.url)), file],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const [line] = await once(owner.stdout, 'data')
  const { pid } = JSON.parse(String(line)) as { pid: number }
  const directory = await directoryOf(pid)
  t.ok(isAlive(pid))

  owner.kill('SIGKILL')
  await until(async () => (await processesNaming(directory)).length === 0)
  await t.rejects(readdir(directory), { code: 'ENOENT' })
  await t.rejects(readFile(file), { code: 'ENOENT' })
})

t.test('a port that is taken is named in the refusal', async (t) => {
  const squatter = createServer().listen(0, '127.0.0.1')
  t.teardown(() => squatter.close())
  await once(squatter, 'listening')
  const address = squatter.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  await t.rejects(startPostgres({ port }), { message: `Port ${port} of 127.0.0.1 is taken` })
})

async function query(url: string, text: string): Promise<pg.QueryResult> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2000 })
  client.on('error', () => undefined)
  await client.connect()
  try {
    return await client.query(text)
  } finally {
    await client.end()
  }
}

async function retry<Result>(attempt: () => Promise<Result>): Promise<Result> {
  const giveUpAtMs = performance.now() + 15_000
  for (;;) {
    try {
      return await attempt()
    } catch (cause) {
      if (performance.now() > giveUpAtMs) throw cause
    }
    await delay(100)
  }
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  await retry(async () => {
    if (!(await condition())) throw new Error(`never true: ${condition}`)
  })
}

/** The temporary directory of the server with that pid: the parent of what follows -D. */
async function directoryOf(pid: number | undefined): Promise<string> {
  const words = await commandOf(String(pid))
  return dirname(words[words.indexOf('-D') + 1] ?? '')
}

async function processesNaming(text: string): Promise<readonly string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const commands = await Promise.all(pids.map(async (pid) => (await commandOf(pid)).join(' ')))
  return commands.filter((command) => command.includes(text))
}

async function commandOf(pid: string): Promise<readonly string[]> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0')
  } catch {
    return [] // It ended meanwhile.
  }
}

function isAlive(pid: number | undefined): boolean {
  try {
    return process.kill(Number(pid), 0)
  } catch {
    return false
  }
}
