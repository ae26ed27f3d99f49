import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { call } from '../support/client.ts'
import { startRawUpstream } from '../support/gateway.ts'
import { type Serving, startServing } from '../support/serve.ts'
import { bearer, oauth, type TestWorld } from '../support/world.ts'

const shipped = fileURLToPath(new URL('../../policies', import.meta.url))

/** A gateway with something to show: policies of its own, a shadow beside them, and callers. */
export type ConsoleFixture = Readonly<{
  gateway: Serving
  /** The folder of the policies in force. */
  policies: string
  /** Changes a policy file, by renaming. */
  edit: (name: string, change: (text: string) => string) => void
  /** Requests that users of all kinds make all day, some of them refused. */
  callAround: () => Promise<void>
}>

/** Works on copies of the policies, which end with the test. The shadow asks for a higher role to list datasets. */
export async function startConsoleFixture(t: Test, world: TestWorld): Promise<ConsoleFixture> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const policies = join(folder, 'policies')
  const shadow = join(folder, 'policies-next')
  for (const copy of [policies, shadow]) cpSync(shipped, copy, { recursive: true })
  const editIn = (directory: string, name: string, change: (text: string) => string): void => {
    const file = join(directory, name)
    writeFileSync(`${file}.new`, change(readFileSync(file, 'utf8')))
    renameSync(`${file}.new`, file)
  }
  editIn(shadow, 'platform.yaml', (text) => text.replace(/(id: datasets\.list\b.*?role: )org-member/s, '$1org-admin'))
  const upstream = await startRawUpstream(t, (socket) =>
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nseen'),
  )
  const settings = { policies: { directory: policies, shadow }, log: { level: 'error' } }
  const gateway = await startServing(t, { world, settings, upstream: upstream.url })
  return {
    gateway,
    policies,
    edit: (name, change) => editIn(policies, name, change),
    callAround: () => callAround(world, gateway),
  }
}

async function callAround({ users, serviceAccounts }: TestWorld, gateway: Serving): Promise<void> {
  const paths = ['/users/me', '/datasets', '/datasets/5', '/workflows', '/clusters']
  for (const user of [users.owner, users.admin, users.member, users.client])
    for (const path of paths) await call(gateway.public, { path, headers: oauth(user) })
  const robot = bearer(serviceAccounts.robot.apiKey)
  const robotAdmin = bearer(serviceAccounts.robotAdmin.apiKey)
  for (const headers of [robot, robotAdmin]) {
    await call(gateway.public, { path: '/datasets', headers })
    await call(gateway.public, { method: 'POST', path: '/datasets', headers })
  }
  await call(gateway.public, { path: '/datasets/5/entries?token=secret', headers: oauth(users.homeless) })
  await call(gateway.public, { path: '/datasets' })
  await call(gateway.public, { method: 'DELETE', path: '/users/me', headers: oauth(users.owner) })
  await call(gateway.public, { path: '/wp-login.php', headers: { 'user-agent': '<script>alert(1)</script>' } })
  const original = { 'x-forwarded-method': 'DELETE', 'x-forwarded-uri': '/datasets/7' }
  await call(gateway.decision, { path: '/authorize', headers: { ...original, ...oauth(users.member) } })
}
