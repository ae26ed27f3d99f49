import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { World } from '../../demo/world.ts'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import type { Owner } from '../../test/support/owner.ts'
import type { Checkout } from './checkout.ts'

/** The configuration of a gateway: sections of its file, and routes in place of the shipped ones. */
export type SetUp = Readonly<{
  settings?: Readonly<Record<string, unknown>>
  routes?: readonly Readonly<Record<string, unknown>>[]
}>

/** Nothing listens on port 1. */
const nowhere = 'http://127.0.0.1:1'
export const anyPort = { host: '127.0.0.1', port: 0 }

/** Writes the fewest keys that a gateway needs, so that commits far apart read the file alike. */
export function writeMinimal(
  owner: Owner,
  { policies, knows }: Checkout,
  { databaseUrl, oidc }: Pick<World['description'], 'databaseUrl' | 'oidc'>,
  { settings = {}, routes }: SetUp,
  urls: Readonly<Record<string, string>>,
): string {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'identity.pem'), generatePem('EdDSA'), { mode: 0o600 })
  if (routes) {
    mkdirSync(join(folder, 'policies'))
    cpSync(join(policies, 'roles.yaml'), join(folder, 'policies/roles.yaml'))
    writeFileSync(join(folder, 'policies/routes.yaml'), JSON.stringify({ routes }))
  }
  const names = ['platform', 'agents', 'files', 'graphql', 'data']
  const configuration = {
    listeners: { public: anyPort, decision: anyPort, admin: anyPort },
    database: { url: databaseUrl },
    issuers: [{ issuer: oidc.issuer, audience: oidc.audience, clockToleranceSeconds: 0 }],
    identity: { keys: ['file:identity.pem'] },
    policies: { directory: routes ? 'policies' : policies },
    log: { level: 'info' },
    audit: { sink: 'off' },
    upstreams: Object.fromEntries(names.map((name) => [name, { url: urls[name] ?? nowhere }])),
    // The bench's cluster is on this machine.
    ...(knows('cluster.networks') && { cluster: { networks: { allow: ['127.0.0.0/8'] } } }),
    ...settings,
  }
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, JSON.stringify(configuration))
  return file
}
