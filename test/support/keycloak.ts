import { copyFileSync, existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../../demo/free-port.ts'
import type { JsonValue } from './client.ts'
import { makeFolder, repository } from './deploy.ts'
import type { Owner } from './owner.ts'
import { type Program, prepareProgram } from './program.ts'

const folder = join(repository, '.sallyport', 'keycloak')
const server = join(folder, 'server')

/** The archive as it is published. */
export const keycloakArchive = (): string =>
  join(folder, readdirSync(folder).find((name) => name.endsWith('.zip')) ?? 'missing')

export const keycloakLack = existsSync(join(folder, '.archive'))
  ? undefined
  : 'Keycloak missing: run scripts/install-tools.js keycloak'

export type Keycloak = Program &
  Readonly<{
    issuer: string
    /** Sends a request to the admin API of the realm; throws unless it succeeds. */
    administer: (method: string, path: string, body?: JsonValue) => Promise<JsonValue>
    /** An access token as a client of the realm gets it, with the rest of the answer. */
    requestToken: (parameters: Readonly<Record<string, string>>) => Promise<TokenAnswer>
  }>

type Realm = Readonly<{ realm: string; [setting: string]: JsonValue }>

export type TokenAnswer = Readonly<{ access_token: string; id_token?: string; refresh_token?: string }>

const administrator = 'operator'

/** Starts a Keycloak with a realm, on a free port; it ends with its owner, or with this process. */
export async function startKeycloak(owner: Owner, realm: Realm): Promise<Keycloak> {
  const place = makeHome(owner)
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const settings = ['--cache=local', '--http-enabled=true', '--http-host=127.0.0.1', `--http-port=${port}`]
  const program = prepareProgram(owner, {
    command: 'java',
    args: [...javaOptions(place), 'start', '--optimized', `--hostname=${url}`, ...settings, ...transmitter],
    health: `${url}/realms/master`,
    cwd: place,
  })
  await program.start()
  const administer = administerAt(url)
  await administer('POST', '', realm)
  const issuer = `${url}/realms/${realm.realm}`
  return {
    ...program,
    issuer,
    administer: (method, path, body) => administer(method, `/${realm.realm}${path}`, body),
    requestToken: (parameters) => requestToken(issuer, parameters),
  }
}

/** Keycloak sends security events each 30 s, and to public addresses alone, unless it is told otherwise. */
const transmitter = ['outbox-drainer-interval=200ms', 'allow-insecure-push-targets=true'].map(
  (option) => `--spi-ssf-transmitter--default--${option}`,
)

const database = join('data', 'h2', 'keycloakdb.mv.db')

/** A home of its own for what a server writes, with a copy of the database that the installation filled. */
function makeHome(owner: Owner): string {
  const home = makeFolder(owner)
  for (const name of ['conf', 'lib', 'providers']) symlinkSync(join(server, name), join(home, name))
  mkdirSync(join(home, 'data', 'h2'), { recursive: true })
  copyFileSync(join(server, database), join(home, database))
  return home
}

/** A test's server has no time to get warm. */
const javaOptions = (home: string): readonly string[] => [
  ...['-Xmx512m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', `-Dkc.home.dir=${home}`],
  ...['java.util', 'java.util.concurrent', 'java.lang', 'java.security'].map(
    (name) => `--add-opens=java.base/${name}=ALL-UNNAMED`,
  ),
  ...['-cp', join(server, 'lib', 'quarkus-run.jar'), 'io.quarkus.bootstrap.runner.QuarkusEntryPoint'],
]

async function requestToken(issuer: string, parameters: Readonly<Record<string, string>>): Promise<TokenAnswer> {
  const body = new URLSearchParams(parameters)
  const answer = await fetch(`${issuer}/protocol/openid-connect/token`, { method: 'POST', body })
  if (!answer.ok) throw new Error(await answer.text())
  return (await answer.json()) as TokenAnswer
}

const administerAt =
  (url: string) =>
  async (method: string, path: string, body?: JsonValue): Promise<JsonValue> => {
    const login = { client_id: 'admin-cli', grant_type: 'password', username: administrator, password: administrator }
    const { access_token: token } = await requestToken(`${url}/realms/master`, login)
    const answer = await fetch(`${url}/admin/realms${path}`, {
      method,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }
