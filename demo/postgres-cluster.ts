import { randomBytes } from 'node:crypto'
import { chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Account, runProgram } from './postgres-account.ts'
import { superuser } from './postgres-database.ts'

export async function createCluster(
  initdb: string,
  account: Account,
  directory: string,
  data: string,
): Promise<string> {
  const password = randomBytes(24).toString('base64url')
  const passwordFile = join(directory, 'password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  await mkdir(data, { mode: 0o700 })
  if (account !== undefined) {
    await chown(passwordFile, account.uid, account.gid)
    await chown(data, account.uid, account.gid)
  }
  const access = ['-U', superuser, '-A', 'scram-sha-256', `--pwfile=${passwordFile}`]
  const speed = ['--no-sync', '--no-data-checksums', '--no-instructions', '--locale=C', '--encoding=UTF8']
  await runProgram(initdb, ['-D', data, ...access, ...speed], account, directory)
  await rm(passwordFile)
  return password
}
