const slotCount = 512

/** Longer ones are rare. */
const longest = 32

const slots: (string | undefined)[] = Array.from({ length: slotCount }, () => undefined)

/** The name of a header line that stands in these bytes: one string for all the lines that name it, not one for each. */
export function readHeaderName(bytes: Buffer, start: number, end: number): string {
  const length = end - start
  if (length > longest) return bytes.toString('latin1', start, end)
  const middle = bytes[start + (length >> 1)] ?? 0
  const slot = (length * 61 + (bytes[start] ?? 0) * 7 + middle * 29 + (bytes[end - 1] ?? 0) * 13) % slotCount
  const known = slots[slot]
  if (known !== undefined && known.length === length && standsAt(known, bytes, start)) return known
  const name = bytes.toString('latin1', start, end)
  slots[slot] = name
  return name
}

function standsAt(name: string, bytes: Buffer, start: number): boolean {
  for (let index = 0; index < name.length; index += 1) if (name.charCodeAt(index) !== bytes[start + index]) return false
  return true
}
