import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import { until } from '../support/gateway.ts'
import { startServing } from '../support/serve.ts'

const usual = {
  public: { host: '0.0.0.0', port: 8080 },
  decision: { host: '127.0.0.1', port: 8081 },
  admin: { host: '127.0.0.1', port: 9090 },
}
const tls = { cert: 'c', key: 'k' }

const isOpen = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 2_000 })
    const settle = (isOpen: boolean) => () => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.on('connect', settle(true))
    socket.on('error', settle(false))
    socket.on('timeout', settle(false))
  })

/** Reads a section of listeners; undefined leaves it out of the file. */
function read(listeners: unknown) {
  const folder = t.testdir({})
  const file = join(folder, 'gateway.yaml')
  const rest = {
    database: { url: 'postgres://127.0.0.1/x' },
    issuers: [{ issuer: 'https://login.example', audience: 'us' }],
    identity: { keys: ['key'] },
    upstreams: {},
  }
  writeFileSync(file, stringify({ ...rest, ...(listeners !== undefined && { listeners }) }))
  return loadConfiguration(file, {}).listeners
}

// A default of all listeners together bound the decision and admin listeners to every address.
t.test('a listener that names no host has its own, whatever else of its section is given', async (t) => {
  for (const written of [undefined, {}]) t.match(read(written), usual)
  for (const name of ['public', 'decision', 'admin'] as const) {
    const { host } = usual[name]
    for (const section of [{ port: 1234 }, { port: 0, maxConnections: 5 }]) {
      const found = read({ [name]: section })
      t.match(found, { ...usual, [name]: { ...usual[name], ...section, host } }, `${name} ${JSON.stringify(section)}`)
    }
  }
})

t.test('a listener that names no port has its own, whatever else of its section is given', async (t) => {
  t.match(read({ public: {}, decision: {}, admin: {} }), usual)
  for (const name of ['public', 'decision', 'admin'] as const) {
    t.match(read({ [name]: { maxConnections: 5 } })[name], usual[name])
    t.match(read({ [name]: { host: '192.0.2.1' } })[name], { ...usual[name], host: '192.0.2.1' })
  }
  for (const name of ['public', 'decision'] as const) t.match(read({ [name]: { tls } })[name], usual[name])
})

t.test('the start tells each address in one line, and binds no other', async (t) => {
  const serving = await startServing(t, {
    settings: { listeners: { public: { port: 0 }, decision: { port: 0 }, admin: { port: 0 } } },
  })
  const findLines = () => serving.log().filter(({ msg }) => msg === 'listening')
  await until(() => findLines().length > 0, 'the line')
  const lines = findLines()
  t.equal(lines.length, 1)
  t.match(lines[0], {
    level: 'info',
    public: { host: '0.0.0.0', port: Number },
    decision: { host: '127.0.0.1', port: Number },
    admin: { host: '127.0.0.1', port: Number },
  })
  for (const [name, url] of Object.entries({ decision: serving.decision, admin: serving.admin })) {
    const { port } = new URL(url)
    const elsewhere = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address))
    for (const host of elsewhere.filter((address) => !/^127\.0\.0\.1$|^fe80:/.test(address)))
      t.notOk(await isOpen(host, Number(port)), `${name} at ${host}`)
  }
})
