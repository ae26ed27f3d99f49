import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { checkConfiguration } from '../../gateway/run/boot/check-configuration.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { makeFolder, repository } from '../support/deploy.ts'

type Service = Readonly<{
  image?: string
  command: readonly string[]
  environment?: Readonly<Record<string, string>>
  volumes?: readonly string[]
  ports?: readonly string[]
  tmpfs?: readonly string[]
  healthcheck?: object
  depends_on?: Readonly<Record<string, Readonly<{ condition: string }>>>
}>

const read = (path: string): string => readFileSync(join(repository, path), 'utf8')
const { services, volumes }: Readonly<{ services: Readonly<Record<string, Service>>; volumes: object }> = parse(
  read('compose.yaml'),
)
const listed = Object.entries(services)
const gateway = services.gateway
const configurationFile = 'examples/compose/gateway.yaml'

/** The configuration with a key and the policies where the container would have them. */
function load(t: Test) {
  const folder = makeFolder(t)
  const file = join(folder, 'gateway.yaml')
  const text = read(configurationFile)
    .replace('/run/sallyport/', `${folder}/`)
    .replace('/etc/sallyport/policies', join(repository, 'policies'))
  writeFileSync(join(folder, 'identity.pem'), generatePem('EdDSA'))
  writeFileSync(file, text)
  return { file, configuration: loadConfiguration(file, gateway?.environment ?? {}) }
}

t.test('the gateway starts with the configuration and the policies that it mounts', async (t) => {
  const { configuration } = load(t)
  await t.resolves(checkConfiguration(configuration))
  t.match(configuration.listeners, { public: { port: 8080 }, admin: { port: 9090 } })
})

t.test('each file, volume and service that is named is there', async (t) => {
  for (const [name, service] of listed) {
    for (const volume of service.volumes ?? []) {
      const [from = ''] = volume.split(':')
      t.ok(from.startsWith('./') ? existsSync(join(repository, from)) : from in volumes, `${name}: ${volume}`)
    }
    for (const [other, { condition }] of Object.entries(service.depends_on ?? {}))
      t.ok(condition === 'service_healthy' && services[other]?.healthcheck, `${name} waits for ${other}`)
    if (service.image) t.match(service.image, /:\d/, `${name} has a version`)
    for (const port of service.ports ?? []) t.match(port, /^127\.0\.0\.1:/, `${name} is open to this machine alone`)
  }
  const { issuers, upstreams, redis, database } = load(t).configuration
  const inside = [
    issuers[0]?.jwksUri,
    database?.url,
    redis.url,
    ...Object.values(upstreams).flatMap(({ urls }) => urls),
  ]
  t.equal(inside.length, 8)
  for (const url of inside) t.ok(new URL(url ?? '').hostname in services, `${url} is a service`)
})

t.test('tokens of the realm have the issuer and the audience that the gateway asks for', async (t) => {
  const { issuers } = parse(read(configurationFile))
  const realm = JSON.parse(read('examples/compose/realm.json'))
  const { environment, command } = services.keycloak ?? {}
  t.equal(issuers[0].issuer, `${environment?.KC_HOSTNAME}/realms/${realm.realm}`)
  t.equal(issuers[0].audience, realm.clients[0].protocolMappers[0].config['included.custom.audience'])
  t.ok(command?.includes(`--http-port=${new URL(issuers[0].jwksUri).port}`))
  const page = read('docs/guides/deploy.md')
  for (const word of [issuers[0].issuer, realm.clients[0].clientId, realm.users[0].username])
    t.match(page, word, 'the page has the command for a token')
})

t.test('the backend runs on the Node of the image', async (t) => {
  const image = /^ARG NODE_IMAGE=(.+)/m.exec(read('Dockerfile'))?.[1]
  t.equal(services.backend?.image, image)
})
