import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findFreePort } from '../../gateway/demo/free-port.ts'
import { makeFolder, repository } from './deploy.ts'
import { endWithThisProcess } from './end-with-this-process.ts'
import type { Owner } from './owner.ts'

const folder = join(repository, '.sallyport', 'decision-points')

export const decisionPointLack = existsSync(join(folder, '.built'))
  ? undefined
  : 'OpenFGA and Cerbos missing: run scripts/install-decision-points.js'

/** A real decision point that permits one user alone to be `viewer` of `document:plan` and of one file. */
export type RealDecisionPoint = Readonly<{
  /** The address that the configuration of the gateway names. */
  url: string
  kill: () => Promise<void>
  start: () => Promise<void>
}>

/** The program ends with its owner, or with this process. */
function prepareProgram(owner: Owner, name: string, args: readonly string[], health: string) {
  let child: ChildProcess | undefined
  const kill = async (): Promise<void> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  owner.teardown(kill)
  const isReady = () =>
    fetch(health).then(
      ({ ok }) => ok,
      () => false,
    )
  const start = async (): Promise<void> => {
    const started = spawn(join(folder, name), args, { env: { PATH: process.env.PATH }, stdio: 'ignore' })
    child = started
    endWithThisProcess(started)
    while (!(await isReady())) {
      if (started.exitCode !== null) throw new Error(`${name} ended with ${started.exitCode}`)
      await sleep(50)
    }
  }
  return { kill, start }
}

export async function startOpenFga(owner: Owner, userId: number, file: string): Promise<RealDecisionPoint> {
  const database = `file:${join(makeFolder(owner), 'openfga.db')}`
  const store = ['--datastore-engine=sqlite', `--datastore-uri=${database}`]
  execFileSync(join(folder, 'openfga'), ['migrate', ...store], { stdio: 'ignore' })
  const origin = `http://127.0.0.1:${await findFreePort()}`
  const program = prepareProgram(
    owner,
    'openfga',
    [
      'run',
      '--experimentals=authzen',
      `--http-addr=${new URL(origin).host}`,
      `--grpc-addr=127.0.0.1:${await findFreePort()}`,
      '--metrics-enabled=false',
      '--playground-enabled=false',
      ...store,
    ],
    `${origin}/healthz`,
  )
  await program.start()
  const post = async (path: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
    const answer = await fetch(`${origin}/stores${path}`, { method: 'POST', body: JSON.stringify(body) })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return (await answer.json()) as Record<string, unknown>
  }
  const { id } = await post('', { name: 'documents' })
  const users = [{ type: 'user' }]
  const defineType = (type: string) => ({
    type,
    relations: { viewer: { this: {} } },
    metadata: { relations: { viewer: { directly_related_user_types: users } } },
  })
  await post(`/${id}/authorization-models`, {
    schema_version: '1.1',
    type_definitions: [...users, ...['document', 'file'].map(defineType)],
  })
  const tuples = [`document:plan`, `file:${file}`].map((object) => ({
    user: `user:${userId}`,
    relation: 'viewer',
    object,
  }))
  await post(`/${id}/write`, { writes: { tuple_keys: tuples } })
  return { url: `${origin}/stores/${id}`, ...program }
}

export async function startCerbos(owner: Owner, userId: number, file: string): Promise<RealDecisionPoint> {
  const policies = join(makeFolder(owner), 'policies')
  mkdirSync(policies)
  for (const [resource, id] of Object.entries({ document: 'plan', file })) {
    const rule = {
      actions: ['viewer'],
      effect: 'EFFECT_ALLOW',
      roles: ['user'],
      condition: { match: { expr: `R.id == "${id}" && P.id == "${userId}" && P.attr.role == "org-member"` } },
    }
    const policy = { apiVersion: 'api.cerbos.dev/v1', resourcePolicy: { resource, version: 'default', rules: [rule] } }
    writeFileSync(join(policies, `${resource}.json`), JSON.stringify(policy))
  }
  const url = `http://127.0.0.1:${await findFreePort()}`
  const settings = [
    `server.httpListenAddr=${new URL(url).host}`,
    `server.grpcListenAddr=127.0.0.1:${await findFreePort()}`,
    'storage.driver=disk',
    `storage.disk.directory=${policies}`,
    'telemetry.disabled=true',
  ]
  const args = ['server', '--debug-listen-addr=', ...settings.map((setting) => `--set=${setting}`)]
  const program = prepareProgram(owner, 'cerbos', args, `${url}/_cerbos/health`)
  await program.start()
  return { url, ...program }
}
