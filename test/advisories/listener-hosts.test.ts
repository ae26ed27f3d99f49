import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { stringify } from 'yaml'
import { loadConfiguration } from '../../gateway/configuration/configuration.ts'

const usual = {
  public: { host: '0.0.0.0', port: 8080 },
  decision: { host: '127.0.0.1', port: 8081 },
  admin: { host: '127.0.0.1', port: 9090 },
}
const tls = { cert: 'c', key: 'k' }

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

t.test('one that names no port has its own as well', async (t) => {
  t.match(read({ public: {}, decision: {}, admin: {} }), usual)
  for (const name of ['public', 'decision', 'admin'] as const) {
    t.match(read({ [name]: { maxConnections: 5 } })[name], usual[name])
    t.match(read({ [name]: { host: '192.0.2.1' } })[name], { ...usual[name], host: '192.0.2.1' })
  }
  for (const name of ['public', 'decision'] as const) t.match(read({ [name]: { tls } })[name], usual[name])
})
