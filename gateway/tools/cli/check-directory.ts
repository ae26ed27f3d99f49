import { paintError, paintWarning } from '../../base/lib/paint.ts'
import { escapeControls, escapeJson } from '../../base/lib/text-table.ts'
import { loadConfiguration, requireDatabase } from '../../configuration/configuration.ts'
import { readUpstreamAddresses } from '../../configuration/upstream-addresses.ts'
import { checkDirectory, type DirectoryReport } from '../../directory/postgres/check/check-directory.ts'
import { loadPolicy } from '../../policy/load.ts'

export type CheckDirectoryOptions = Readonly<{ config: string; tryWrites?: boolean; json?: boolean }>

/** An operator can wait longer than a request, and some checks read whole views. */
const timeoutMs = 30_000

export async function runCheckDirectory({ config, tryWrites = false, json = false }: CheckDirectoryOptions) {
  const configuration = loadConfiguration(config, process.env)
  const { policies, directory } = configuration
  const { roles, resources, organizations } = loadPolicy(policies.directory, readUpstreamAddresses(configuration))
  const report = await checkDirectory({
    url: requireDatabase(configuration).url,
    vocabulary: {
      roles: new Set([...roles.organization.keys(), ...roles.platform.keys()]),
      resources: [...resources.values()],
    },
    declared: directory.kind === 'both' ? organizations : undefined,
    triesWrites: tryWrites,
    timeoutMs,
  })
  process.stdout.write(json ? `${escapeJson(report)}\n` : describeReport(report, tryWrites))
  if (countErrors(report) > 0) process.exitCode = 1
}

const countErrors = ({ problems }: DirectoryReport): number =>
  problems.filter(({ severity }) => severity === 'error').length

function describeReport(report: DirectoryReport, hasTriedWrites: boolean): string {
  const { problems, relations, isAdopted } = report
  const lines = problems.map(({ severity, code, where, message, help }) => {
    const paint = severity === 'error' ? paintError : paintWarning
    const label = paint(`${severity}[${code}]:`, process.stdout)
    return `${escapeControls(where)}: ${label} ${escapeControls(message)}\n  help: ${escapeControls(help)}\n`
  })
  const errors = countErrors(report)
  const warnings = problems.length - errors
  const whose = isAdopted ? "another program's tables" : "the gateway's own tables"
  const counted = count(warnings, 'warning')
  const verdict =
    errors > 0
      ? `${count(errors, 'error')}, ${counted}\nnext: correct the first error, and run "sallyport directory check" again\n`
      : `${relations} relations over ${whose} match the gateway's needs${warnings > 0 ? ` (${counted})` : ''}\n`
  const next =
    errors > 0 || hasTriedWrites
      ? ''
      : 'next: "sallyport directory check --try-writes" tries a write, and rolls it back\n'
  return `${lines.join('')}${verdict}${next}`
}

const count = (number: number, what: string): string => `${number} ${what}${number === 1 ? '' : 's'}`
