import { asFields } from './fields.ts'

/** The path of the first server, without a slash at its end: what stands before every path of the description. */
export function chooseBase(servers: unknown): string {
  const [first] = Array.isArray(servers) ? servers : []
  const { url, variables } = asFields(first)
  if (typeof url !== 'string') return ''
  const filled = url.replace(/\{([^{}]*)\}/g, (_, name: string) => {
    const { default: value } = asFields(asFields(variables)[name])
    if (value === undefined) throw new Error(`the variable "${name}" of servers[0].url has no default; name --base`)
    return String(value)
  })
  // Relative to where the description itself is served, of which nothing is known but that it is some host.
  if (!URL.canParse(filled, 'http://localhost/')) throw new Error('servers[0].url is no URL; name --base')
  return new URL(filled, 'http://localhost/').pathname.replace(/\/$/, '')
}
