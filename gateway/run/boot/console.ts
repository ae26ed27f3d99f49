import { existsSync, readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { createConsole } from '../../../console/console.ts'
import { type ConsoleTable, noTable } from '../../../console/snapshot.ts'
import { packageRoot } from '../../base/lib/package-root.ts'
import type { Configuration } from '../../configuration/configuration.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import { readVersion } from '../../configuration/version.ts'
import type { AdminPages, AdminState } from '../../listeners/admin/listener.ts'
import { type PolicyTextList, takeFingerprint } from '../reload/policy-status.ts'
import { compileConsoleTable } from './console-table.ts'

export function openConsole(configuration: Configuration, facts: AdminState): AdminPages['console'] {
  const upstreams = Object.entries(configuration.upstreams)
  const addresses = readUpstreamAddresses(configuration)
  const widensOptions = !configuration.cors
  return createConsole({
    ...facts,
    table: rememberTable(facts.policyTexts, (texts) => compileConsoleTable(texts, addresses, { widensOptions })),
    upstreams: upstreams.map(([name, { urls }]) => ({
      name,
      origin: urls.map((url) => new URL(url).origin).join(', '),
    })),
    issuers: configuration.issuers.map(({ issuer }) => issuer),
    isAudited: configuration.audit.sink !== 'off',
    replica: configuration.audit.replica ?? hostname(),
    version: readVersion(),
    runbook: readRunbook(),
    now: () => new Date(),
  })
}

function readRunbook(): string | undefined {
  const file = new URL('docs/guides/runbook.md', packageRoot)
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function rememberTable(
  read: () => Promise<PolicyTextList>,
  compile: (texts: PolicyTextList) => Promise<ConsoleTable>,
): (fingerprint: string | undefined) => Promise<ConsoleTable> {
  let known: Readonly<{ fingerprint: string; table: ConsoleTable }> | undefined
  return async (fingerprint) => {
    if (fingerprint === undefined) return noTable
    if (known?.fingerprint !== fingerprint) {
      const texts = await read()
      known = { fingerprint: takeFingerprint(texts), table: await compile(texts) }
    }
    return known.table
  }
}
