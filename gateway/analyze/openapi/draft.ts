import type { Policy } from '../../policy/compile.ts'
import { type Method, methods } from '../../policy/route.ts'
import { coverRoutes } from './cover.ts'
import type { Operation } from './read-operations.ts'

/**
 * Drafts a policy as closed as a usable one can be: every route requires the highest role, which alone has the
 * abilities, and no token can be minted.
 */
export function draftTable(operations: readonly Operation[], upstream: string): string {
  const drafts = draftRoutes(operations)
  const abilities = [...new Set(drafts.flatMap(({ ability }) => ability ?? []))].sort()
  return [
    '# yaml-language-server: $schema=policy.schema.json',
    '# As drafted, only owners pass, and only with OAuth.',
    '# Move each ability to the lowest role that needs it, since higher roles have it too. Then lower the role of its routes.',
    '# List the abilities that API tokens may have under tokenScopes: { api-key: [...] }.',
    'organizationRoles:',
    ...['client', 'member', 'admin'].map((name) => `  - { slug: org-${name}, name: ${name}, abilities: [] }`),
    '  - slug: org-owner',
    '    name: owner',
    ...(abilities.length > 0
      ? ['    abilities:', ...abilities.map((ability) => `      - ${ability}`)]
      : ['    abilities: []']),
    'platformRoles: []',
    'tokenScopes: {}',
    '',
    drafts.some(({ id }) => id !== undefined) ? 'routes:' : 'routes: []',
    ...drafts.flatMap((draft) => writeDraft(draft, upstream)),
    '',
  ].join('\n')
}

/**
 * Drafts a policy for roles of the operator's, lowest first: the lowest reads, the middle one writes, and the highest
 * deletes and has what lies under `admin`. Two roles share the last two.
 */
export function draftRoleTable(operations: readonly Operation[], upstream: string, roles: readonly string[]): string {
  const drafts = draftRoutes(operations).map((draft) => placeDraft(draft, roles))
  const owned = new Map<string, string>()
  // An ability belongs to the lowest role that needs it, since higher roles have it too.
  for (const slug of roles)
    for (const { role, ability } of drafts)
      if (role === slug && ability !== undefined && !owned.has(ability)) owned.set(ability, slug)
  const abilitiesOf = (slug: string): readonly string[] =>
    [...owned].flatMap(([ability, owner]) => (owner === slug ? [ability] : [])).sort()
  const { reads, writes, deletes } = chooseLadder(roles)
  const writing = [...owned.keys()].filter((ability) => ability.endsWith(':write')).sort()
  return [
    '# yaml-language-server: $schema=policy.schema.json',
    `# As drafted, ${reads} reads, ${writes} writes, and ${deletes} deletes and administers. API tokens have nothing.`,
    '# List the abilities that API tokens may have under tokenScopes: { api-key: [...] }.',
    'organizationRoles:',
    ...roles.map((slug) => {
      const abilities = [...abilitiesOf(slug), ...(slug === deletes ? managing : [])]
      return `  - { slug: ${spell(slug)}, name: ${JSON.stringify(slug)}, abilities: [${abilities.join(', ')}] }`
    }),
    '# Which of them stand for the permissions in /users/me.',
    'meanings:',
    `  reads: { role: ${spell(reads)} }`,
    `  writes: { role: ${spell(writes)}, abilities: [${(writing.length > 0 ? writing : managing).join(', ')}] }`,
    `  manages: { role: ${spell(deletes)}, abilities: [${managing.join(', ')}] }`,
    `  owns: { role: ${spell(deletes)} }`,
    'platformRoles: []',
    'tokenScopes: {}',
    '',
    drafts.some(({ id }) => id !== undefined) ? 'routes:' : 'routes: []',
    ...drafts.flatMap((draft) => writeDraft(draft, upstream)),
    '',
  ].join('\n')
}

export type Additions = Readonly<{
  /** Lines of routes, none where nothing is missing. */
  lines: readonly string[]
  routes: number
  /** Operations without a route for which none can be drafted, with the reason. */
  byHand: readonly string[]
}>

/**
 * Drafts routes for the operations that the policy does not route yet. No role gains an ability: a route that would
 * require one that its role lacks requires the highest role alone.
 */
export function draftAdditions(
  operations: readonly Operation[],
  policy: Policy,
  upstream: string,
  roles: readonly string[] | undefined,
): Additions {
  const missing = new Set(coverRoutes(policy, operations).unrouted.map(nameOperation))
  const ids = new Set(policy.routes.map(({ id }) => id))
  const all = draftRoutes(
    operations.filter((operation) => missing.has(nameOperation(operation))),
    ids,
  )
  const drafts = all.filter(({ id }) => id !== undefined).map((draft) => placeKnown(draft, policy, roles))
  // An operation that falls under a drafted route has one by then.
  const byHand = all.filter(({ id, isShared }) => id === undefined && !isShared)
  return {
    lines: drafts.flatMap((draft) => writeDraft(draft, upstream)),
    routes: drafts.length,
    byHand: byHand.map(({ operation: { method, template }, remark }) => `${method} ${template}: ${remark}`),
  }
}

const nameOperation = ({ method, template }: Pick<Operation, 'method' | 'template'>): string => `${method} ${template}`

function placeKnown(draft: Draft, { roles: known }: Policy, roles: readonly string[] | undefined): Draft {
  const { slug: highest } = known.highest
  const placed = placeDraft(draft, roles ?? [highest])
  const role = placed.role ?? highest
  // Both spellings of a draft: by one role a deletion is a write.
  const ability = [placed.ability, draft.ability].find(
    (name) => name !== undefined && known.organization.get(role)?.abilities.has(name),
  )
  if (ability !== undefined) return { ...placed, ability }
  const { ability: lacking, ...rest } = placed
  const remarks = [draft.remark ?? [], `no role has ${lacking} yet, so this requires the highest role alone`].flat()
  return { ...rest, role: highest, remark: remarks.join('; ') }
}

/** No route requires it: it is for the permissions of `meanings`, and for minting. */
const managing = ['organizations:manage']

type Draft = Readonly<{
  operation: Operation
  id?: string
  role?: string
  ability?: string
  remark?: string
  isShared?: boolean
}>

/** YAML reads some names as another value, or their colon as its own. */
const spell = (slug: string): string =>
  /^[A-Za-z][\w-]*$/.test(slug) && !/^(?:null|true|false)$/i.test(slug) ? slug : JSON.stringify(slug)

const chooseLadder = (roles: readonly string[]): Readonly<Record<'reads' | 'writes' | 'deletes', string>> => ({
  reads: roles[0] ?? '',
  writes: roles[Math.floor(roles.length / 2)] ?? '',
  deletes: roles.at(-1) ?? '',
})

/** Words by which an API names what is not for every member. */
const administrative = /^(?:admin|administration|internal|management|manage)$/i

function placeDraft(draft: Draft, roles: readonly string[]): Draft {
  const { method, pattern } = draft.operation
  const { reads, writes, deletes } = chooseLadder(roles)
  const isReading = method === 'GET' || method === 'HEAD' || method === 'OPTIONS'
  const isDeleting = method === 'DELETE'
  if (pattern.split('/').some((part) => administrative.test(part))) {
    // An ability of its own, since that of the resource may belong to a lower role.
    const ability = `admin:${isReading ? 'read' : isDeleting ? 'delete' : 'write'}`
    return { ...draft, role: deletes, ...(draft.ability !== undefined && { ability }) }
  }
  if (isReading) return { ...draft, role: reads }
  const ability = isDeleting ? draft.ability?.replace(/:write$/, ':delete') : draft.ability
  return { ...draft, role: isDeleting ? deletes : writes, ...(ability !== undefined && { ability }) }
}

function draftRoutes(operations: readonly Operation[], ids = new Set<string>()): readonly Draft[] {
  const shapes = new Map<string, Operation>()
  return operations.map((operation): Draft => {
    const shape = `${operation.method} ${operation.pattern.replace(/:\w+/g, ':')}`
    const other = shapes.get(shape)
    if (other)
      return { operation, isShared: true, remark: `falls under ${other.template}: a parameter is a whole segment` }
    if (!isServed(operation.method)) return { operation, remark: 'the gateway does not serve this method' }
    if (operation.split !== undefined)
      return {
        operation,
        remark: `"${operation.split}" may hold several segments before the end, so write its routes by hand`,
      }
    shapes.set(shape, operation)
    const remark = operation.isWider
      ? 'this pattern takes more than the description: a parameter is a whole segment'
      : operation.isOpen
        ? 'the description asks for no credential, and "access: public" instead of "require" would serve it without one'
        : undefined
    return { operation, id: chooseId(operation, ids), ability: chooseAbility(operation), ...(remark && { remark }) }
  })
}

const isServed = (method: string): method is Method => (methods as readonly string[]).includes(method)

function chooseId({ id, method, pattern }: Operation, taken: Set<string>): string {
  const words = (id ?? `${method.toLowerCase()}${pattern}`)
    .replace(/[^A-Za-z0-9._-]+/g, '.')
    .replace(/^[^A-Za-z]+|[.]+$/g, '')
  const plain = `${words.charAt(0).toLowerCase()}${words.slice(1)}`.slice(0, 56) || 'route'
  let name = plain
  for (let count = 2; taken.has(name); count++) name = `${plain}.${count}`
  taken.add(name)
  return name
}

function chooseAbility({ method, pattern }: Operation): string {
  const words = pattern.split('/').filter((part) => /^[A-Za-z]/.test(part) && !/^v\d+$/.test(part))
  const resource = (words.at(-1) ?? 'api')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/-$/, '')
  return `${resource}:${method === 'GET' || method === 'HEAD' || method === 'OPTIONS' ? 'read' : 'write'}`
}

function writeDraft(
  { operation, id, role = 'org-owner', ability, remark }: Draft,
  upstream: string,
): readonly string[] {
  const { method, template, pattern } = operation
  // Names are untrusted text: they must not end the comment.
  const comment = remark ? [`  # ${`${method} ${template}: ${remark}`.replace(/[^\x20-\x7e]/g, '?')}`] : []
  if (id === undefined) return comment
  return [
    ...comment,
    `  - id: ${id}`,
    `    match: { methods: [${method}], path: ${JSON.stringify(pattern)} }`,
    '    surface: platform',
    `    upstream: ${JSON.stringify(upstream)}`,
    `    require: { role: ${spell(role)}${ability === undefined ? '' : `, ability: ${ability}`} }`,
  ]
}
