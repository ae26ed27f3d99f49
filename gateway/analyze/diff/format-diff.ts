import { escapeControls, escapeJson, formatTable } from '../../base/lib/text-table.ts'
import type { ChangedCell } from './compare-access.ts'
import type { RouteDifference } from './compare-routes.ts'
import type { PolicyDiff, RouteChange } from './diff.ts'

export const diffFormats = ['table', 'markdown', 'json'] as const

export type DiffFormat = (typeof diffFormats)[number]

export function formatDiff(diff: PolicyDiff, format: DiffFormat): string {
  switch (format) {
    case 'json':
      return `${escapeJson(diff, 2)}\n`
    case 'table':
      return writeSections(diff, (title, header, rows) => `${title}\n${formatTable(header, rows)}`)
    case 'markdown':
      return writeSections(diff, (title, header, rows) => `**${title}**\n\n${formatMarkdown(header, rows)}`)
    default:
      return format satisfies never
  }
}

type Rows = readonly (readonly string[])[]

type WriteSection = (title: string, header: readonly string[], rows: Rows) => string

function writeSections({ routes, roles, organizations }: PolicyDiff, write: WriteSection): string {
  const access = routes.flatMap((change) => [
    ...listCells('gains', change, change.gains),
    ...listCells('loses', change, change.losses),
  ])
  const elsewhere = routes.flatMap((change) => listOther(change, ({ what }) => what === 'destination'))
  const other = routes.flatMap((change) => listOther(change, ({ what }) => what !== 'destination'))
  const tell = ({ what, old, new: fresh }: RouteDifference) => [what, old, fresh]
  const place = ['route', 'methods', 'path']
  const sections: readonly (readonly [title: string, header: readonly string[], rows: Rows])[] = [
    ['Access', ['', 'route', 'methods', 'path', 'role', 'credential'], access],
    [
      'Other destination',
      [...place, 'before', 'after'],
      elsewhere.map(([route, methods, path, , ...rest]) => [route ?? '', methods ?? '', path ?? '', ...rest]),
    ],
    ['Other changes', [...place, 'what', 'before', 'after'], other],
    ['Roles and scopes, as backends and new tokens see them', ['what', 'before', 'after'], roles.map(tell)],
    ['Organizations of callers whose roles come from claims', ['what', 'before', 'after'], organizations.map(tell)],
  ]
  const written = sections.filter(([, , rows]) => rows.length > 0).map((section) => write(...section))
  return written.length > 0 ? written.join('\n') : 'the two policies are equivalent\n'
}

const placeOf = ({ old, new: fresh, methods, paths }: RouteChange): readonly string[] => {
  const names = new Set([old?.route ?? 'none', fresh?.route ?? 'none'])
  return [[...names].join(' -> '), methods.join(' '), paths.join(' ')]
}

function listCells(verb: string, change: RouteChange, cells: readonly ChangedCell[]): Rows {
  const credentials = new Map<string, readonly string[]>()
  for (const { role, credential, relation } of cells) {
    const who = relation === '' ? role : `${role} (${relation})`
    credentials.set(who, [...(credentials.get(who) ?? []), credential])
  }
  const callers = new Map<string, readonly string[]>()
  for (const [who, by] of credentials) callers.set(by.join(', '), [...(callers.get(by.join(', ')) ?? []), who])
  return [...callers].map(([by, who]) => [verb, ...placeOf(change), who.join(', '), by])
}

const listOther = (change: RouteChange, isMeant: (difference: RouteDifference) => boolean): Rows =>
  change.other.filter(isMeant).map(({ what, old, new: fresh }) => [...placeOf(change), what, old, fresh])

const formatMarkdown = (header: readonly string[], rows: Rows): string =>
  [header, header.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => escapeControls(cell).replaceAll('|', '\\|')).join(' | ')} |\n`)
    .join('')
