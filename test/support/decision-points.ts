import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../../demo/free-port.ts'
import { makeFolder, repository } from './deploy.ts'
import { keycloakLack, startKeycloak } from './keycloak.ts'
import type { Owner } from './owner.ts'
import { type Program, prepareProgram } from './program.ts'

const folder = join(repository, '.sallyport', 'decision-points')

const decisionPointLack = existsSync(join(folder, '.built'))
  ? undefined
  : 'OpenFGA and Cerbos missing: run scripts/install-tools.js decision-points'

/**
 * A real decision point that permits one user alone to be `viewer` of `document:plan`, of documents `open-0` to `open-199`
 * and of one file.
 */
export type RealDecisionPoint = Program &
  Readonly<{
    /** The address that the configuration of the gateway names. */
    url: string
    /** The name that its metadata have. */
    identifier: string
    headers: Readonly<Record<string, string>>
  }>

export const openDocuments: readonly string[] = Array.from({ length: 200 }, (_, index) => `open-${index}`)

export type StartDecisionPoint = (owner: Owner, userId: number, file: string) => Promise<RealDecisionPoint>

/** OpenFGA takes no more at a time. */
const mostTuples = 100

const startOpenFga: StartDecisionPoint = async (owner, userId, file) => {
  const database = `file:${join(makeFolder(owner), 'openfga.db')}`
  const store = ['--datastore-engine=sqlite', `--datastore-uri=${database}`]
  execFileSync(join(folder, 'openfga'), ['migrate', ...store], { stdio: 'ignore' })
  const origin = `http://127.0.0.1:${await findFreePort()}`
  const program = prepareProgram(owner, {
    command: join(folder, 'openfga'),
    args: [
      'run',
      '--experimentals=authzen',
      `--authzen-base-url=${origin}`,
      `--http-addr=${new URL(origin).host}`,
      `--grpc-addr=127.0.0.1:${await findFreePort()}`,
      '--metrics-enabled=false',
      '--playground-enabled=false',
      ...store,
    ],
    health: `${origin}/healthz`,
  })
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
  const objects = [`file:${file}`, ...['plan', ...openDocuments].map((document) => `document:${document}`)]
  const tuples = objects.map((object) => ({ user: `user:${userId}`, relation: 'viewer', object }))
  for (let from = 0; from < tuples.length; from += mostTuples)
    await post(`/${id}/write`, { writes: { tuple_keys: tuples.slice(from, from + mostTuples) } })
  const url = `${origin}/stores/${id}`
  return { ...program, url, identifier: url, headers: {} }
}

const startCerbos: StartDecisionPoint = async (owner, userId, file) => {
  const policies = join(makeFolder(owner), 'policies')
  mkdirSync(policies)
  const named = { document: `R.id == "plan" || R.id.startsWith("open-")`, file: `R.id == "${file}"` }
  for (const [resource, isNamed] of Object.entries(named)) {
    const rule = {
      actions: ['viewer'],
      effect: 'EFFECT_ALLOW',
      roles: ['user'],
      condition: { match: { expr: `(${isNamed}) && P.id == "${userId}" && P.attr.role == "org-member"` } },
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
  const program = prepareProgram(owner, { command: join(folder, 'cerbos'), args, health: `${url}/_cerbos/health` })
  await program.start()
  return { ...program, url, identifier: url, headers: {} }
}

/** Keycloak takes the subject's id as a user name, and answers callers with a service account alone. */
const startKeycloakPoint: StartDecisionPoint = async (owner, userId, file) => {
  const scopes = [{ name: 'viewer' }]
  const documents = ['plan', ...openDocuments].map((name) => ({ name, type: 'document', scopes }))
  const shut = { name: 'other', type: 'document', scopes }
  const common = { logic: 'POSITIVE', decisionStrategy: 'UNANIMOUS' }
  const client = { client_id: 'gateway', client_secret: 'gateway' }
  const { issuer, requestToken, ...program } = await startKeycloak(owner, {
    realm: 'tests',
    enabled: true,
    sslRequired: 'none',
    users: [{ username: String(userId), enabled: true }],
    clients: [
      {
        clientId: client.client_id,
        secret: client.client_secret,
        serviceAccountsEnabled: true,
        authorizationServicesEnabled: true,
        attributes: { 'access.token.lifespan': '3600' },
        authorizationSettings: {
          policyEnforcementMode: 'ENFORCING',
          scopes,
          resources: [...documents, shut, { name: file, type: 'file', scopes }],
          policies: [
            { name: 'user', type: 'user', ...common, config: { users: JSON.stringify([String(userId)]) } },
            {
              name: 'view',
              type: 'scope',
              ...common,
              config: {
                resources: JSON.stringify([...documents.map(({ name }) => name), file]),
                scopes: '["viewer"]',
                applyPolicies: '["user"]',
              },
            },
          ],
        },
      },
    ],
  })
  const { access_token: token } = await requestToken({ grant_type: 'client_credentials', ...client })
  return { ...program, url: `${issuer}/authzen`, identifier: issuer, headers: { authorization: `Bearer ${token}` } }
}

/**
 * With what each answers about an action that it does not know, and about a user that it does not know. OpenFGA leaves
 * `/stores` out of the address of its metadata, but not of the name in them.
 */
export const decisionPoints = [
  {
    name: 'OpenFGA',
    start: startOpenFga,
    lack: decisionPointLack,
    ofUnknownAction: '503 decision_unavailable',
    ofUnknownUser: '403 decision_refused',
    byMetadata: '503 decision_unavailable',
  },
  {
    name: 'Cerbos',
    start: startCerbos,
    lack: decisionPointLack,
    ofUnknownAction: '403 decision_refused',
    ofUnknownUser: '403 decision_refused',
    byMetadata: '200',
  },
  {
    name: 'Keycloak',
    start: startKeycloakPoint,
    lack: keycloakLack,
    ofUnknownAction: '403 decision_refused',
    ofUnknownUser: '503 decision_unavailable',
    byMetadata: '200',
  },
]
