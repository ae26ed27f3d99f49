export type LineName = Readonly<{ key: string; start: string }>

/** RFC 9110 5.1 and 5.5: a token, and a value that cannot end its line. */
const namePattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const valuePattern = /^[\t\x20-\x7e\x80-\xff]*$/

/** Real traffic has few names. The bound keeps invented ones from filling memory. */
const rememberedNames = 1_024
const rememberedLength = 64
const remembered = new Map<string, LineName>()

export function readLineName(name: string): LineName {
  const known = remembered.get(name)
  if (known) return known
  if (!namePattern.test(name)) throw new TypeError('not a header line')
  const read = { key: name.toLowerCase(), start: `${name}: ` }
  if (remembered.size < rememberedNames && name.length <= rememberedLength) remembered.set(name, read)
  return read
}

export function composeLine({ start }: LineName, value: string): string {
  // Checked apart: a joined line would be copied for the check.
  if (!valuePattern.test(value)) throw new TypeError('not a header line')
  return `${start}${value}\r\n`
}
