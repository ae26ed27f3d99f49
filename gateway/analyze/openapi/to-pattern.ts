/** The policy pattern that takes a template's requests; wider where a parameter is but a part of a segment. */
export function toPattern(base: string, template: string): Readonly<{ pattern: string; isWider: boolean }> {
  if (/[?#]/.test(template)) throw new Error('a path holds no query or fragment')
  const names = new Set<string>()
  let isWider = false
  const segments = `${base}${template}`
    .slice(1)
    .split('/')
    .map((segment) => {
      const [, name] = /\{([^{}]*)\}/.exec(segment) ?? []
      if (name === undefined) return spellLiteral(segment)
      if (segment !== `{${name}}`) isWider = true
      return `:${chooseName(name, names)}`
    })
  return { pattern: `/${segments.join('/')}`, isWider }
}

/** What a pattern would take for something else, or a request never holds, is escaped; escapes stay. */
const spellLiteral = (segment: string): string =>
  segment
    .replace(/%(?![0-9a-f]{2})|[^\w!$&'()*+,.:;=@~%-]/giu, encodeURIComponent)
    .replace(/^[:*]/, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`)

function chooseName(wish: string, taken: Set<string>): string {
  const plain = wish.replace(/\W/g, '_').replace(/^(?=\d|$)/, 'p')
  let name = plain
  for (let count = 2; taken.has(name); count++) name = `${plain}_${count}`
  taken.add(name)
  return name
}
