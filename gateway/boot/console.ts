import { existsSync, readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { createConsole } from '../admin/console/console.ts'
import { type ConsoleTable, noTable } from '../admin/console/snapshot.ts'
import type { AdminPages, AdminState } from '../admin/listener.ts'
import type { Configuration } from '../configuration/configuration.ts'
import { readUpstreamAddresses } from '../configuration/upstream-addresses.ts'
import { readVersion } from '../configuration/version.ts'
import type { KnownUpstreams } from '../policy/known-upstreams.ts'
import { type PolicyTextList, takeFingerprint } from '../reload/policy-status.ts'
import { compileConsoleTable } from './console-table.ts'

export function openConsole(configuration: Configuration, facts: AdminState): AdminPages['console'] {
  const upstreams = Object.entries(configuration.upstreams)
  return createConsole({
    ...facts,
    table: rememberTable(facts.policyTexts, readUpstreamAddresses(configuration)),
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

const runbookPages = ['availability', 'upstreams', 'authentication', 'database', 'configuration', 'capacity']

function readRunbook(): string | undefined {
  const guides = new URL('../../docs/guides/', import.meta.url)
  const files = ['runbook.md', ...runbookPages.map((name) => `runbook/${name}.md`)].map((name) => new URL(name, guides))
  if (!files.every((file) => existsSync(file))) return undefined
  const [first = '', ...others] = files.map((file) => readFileSync(file, 'utf8'))
  return [first, ...others.map((text) => text.replaceAll(/^#/gm, '##'))].join('\n')
}

function rememberTable(
  read: () => Promise<PolicyTextList>,
  upstreams: KnownUpstreams,
): (fingerprint: string | undefined) => Promise<ConsoleTable> {
  let known: Readonly<{ fingerprint: string; table: ConsoleTable }> | undefined
  return async (fingerprint) => {
    if (fingerprint === undefined) return noTable
    if (known?.fingerprint !== fingerprint) {
      const texts = await read()
      known = { fingerprint: takeFingerprint(texts), table: await compileConsoleTable(texts, upstreams) }
    }
    return known.table
  }
}
