/** A line's name: in lower case, and as the line begins. */
export type LineName = Readonly<{ key: string; start: string }>

/** RFC 9110 5.1 and 5.5: a token, and what can neither end its line nor be mistaken for its end. */
const namePattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/

/** Names that came before: there are few, and whoever invents more finds no more room than this. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, LineName>()

/** Throws for what is no name. */
export function readLineName(name: string): LineName {
  const known = remembered.get(name)
  if (known) return known
  if (!namePattern.test(name)) throw new TypeError('not a header line')
  const read = { key: name.toLowerCase(), start: `${name}: ` }
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, read)
  return read
}

/** One line of a head; throws rather than write what would be two of them, or none. */
export function composeLine({ start }: LineName, value: string): string {
  // Apart: a line put together to be looked at would be copied for it.
  if (!valuePattern.test(value)) throw new TypeError('not a header line')
  return `${start}${value}\r\n`
}
