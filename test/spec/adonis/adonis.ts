import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Owner } from '../../support/owner.ts'

const application = fileURLToPath(new URL('app', import.meta.url))
const installed = fileURLToPath(new URL('../../../.sallyport/adonis', import.meta.url))
const typescript = fileURLToPath(import.meta.resolve('typescript'))

/** The reason why AdonisJS cannot be started; undefined where it can. The script writes the file last. */
export const adonisLack: string | undefined = existsSync(join(installed, '.lock'))
  ? undefined
  : 'there is no AdonisJS: run scripts/install-tools.js companions'

/** A token as AdonisJS sees it. */
export type AdonisToken = Readonly<{
  id: number
  userId: number
  name: string | null
  abilities: readonly string[]
  expiresAt: string | null
  allowsReading: boolean
  allowsWriting: boolean
}>

type MintOptions = Readonly<{ name?: string; expiresIn?: string }>

/** A backend in AdonisJS, whose tables are those of its own migrations. */
export type Adonis = Readonly<{
  createUser: (fields: Readonly<{ email: string; password: string; fullName?: string }>) => Promise<number>
  mint: (
    userId: number,
    abilities?: readonly string[],
    options?: MintOptions,
  ) => Promise<AdonisToken & Readonly<{ value: string }>>
  /** A token of another type, in the same table. */
  mintOther: (userId: number, type: string) => Promise<string>
  verify: (value: string) => Promise<AdonisToken | null>
  delete: (userId: number, id: number) => Promise<number>
  list: (userId: number) => Promise<readonly AdonisToken[]>
  /** Whether a log-in by password succeeds. */
  checkPassword: (email: string, password: string) => Promise<boolean>
}>

/** Starts it on a database, where it runs its migrations first; it ends with its owner. */
export async function startAdonis(owner: Owner, databaseUrl: string): Promise<Adonis> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  cpSync(application, directory, { recursive: true })
  symlinkSync(join(installed, 'node_modules'), join(directory, 'node_modules'))
  const child = spawn(process.execPath, ['backend.js', typescript], {
    cwd: directory,
    // Variables of the machine must not reach it.
    env: { PATH: process.env.PATH, NODE_ENV: 'test', DATABASE_URL: databaseUrl },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  owner.teardown(() => child.kill('SIGKILL'))
  const ended = once(child, 'exit').then(([code]) => Promise.reject(new Error(`AdonisJS ended with ${code}`)))
  ended.catch(() => undefined)
  child.stdin.on('error', () => undefined)
  const lines = createInterface(child.stdout)
  await Promise.race([once(lines, 'line'), ended])
  const waiting: ((line: string) => void)[] = []
  // It answers in the order of the questions.
  lines.on('line', (line) => waiting.shift()?.(line))
  const ask =
    <Arguments extends readonly unknown[], Result>(what: string) =>
    async (...values: Arguments): Promise<Result> => {
      const answered = new Promise<string>((resolve) => waiting.push(resolve))
      child.stdin.write(`${JSON.stringify([what, ...values])}\n`)
      const { value, error }: { value?: Result; error?: string } = JSON.parse(await Promise.race([answered, ended]))
      if (error !== undefined) throw new Error(error)
      return value as Result // The program's answer to this question has this shape.
    }
  return {
    createUser: ask('createUser'),
    mint: ask('mint'),
    mintOther: ask('mintOther'),
    verify: ask('verify'),
    delete: ask('delete'),
    list: ask('list'),
    checkPassword: ask('checkPassword'),
  }
}
