import { type Method, methods } from '../../policy/route.ts'
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

type Draft = Readonly<{ operation: Operation; id?: string; ability?: string; remark?: string }>

function draftRoutes(operations: readonly Operation[]): readonly Draft[] {
  const ids = new Set<string>()
  const shapes = new Map<string, Operation>()
  return operations.map((operation): Draft => {
    const shape = `${operation.method} ${operation.pattern.replace(/:\w+/g, ':')}`
    const other = shapes.get(shape)
    if (other) return { operation, remark: `falls under ${other.template}: a parameter is a whole segment` }
    if (!isServed(operation.method)) return { operation, remark: 'the gateway does not serve this method' }
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
  return `${resource}:${method === 'GET' || method === 'HEAD' ? 'read' : 'write'}`
}

function writeDraft({ operation, id, ability, remark }: Draft, upstream: string): readonly string[] {
  const { method, template, pattern } = operation
  // A template is untrusted text: it must not end the comment.
  const comment = remark ? [`  # ${method} ${template.replace(/[^\x21-\x7e]/g, '?')}: ${remark}`] : []
  if (id === undefined) return comment
  return [
    ...comment,
    `  - id: ${id}`,
    `    match: { methods: [${method}], path: ${JSON.stringify(pattern)} }`,
    '    surface: platform',
    `    upstream: ${JSON.stringify(upstream)}`,
    `    require: { role: org-owner, ability: ${ability} }`,
  ]
}
