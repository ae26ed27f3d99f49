export type Pointer = readonly string[]

/** RFC 6901 4: `~1` before `~0`, so that `~01` is `~1` and not a slash. */
export const parsePointer = (text: string): Pointer =>
  text
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))

export function readPointer(raw: unknown, pointer: Pointer): unknown {
  let value = raw
  for (const name of pointer) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Readonly<Record<string, unknown>>)[name] // an object that has it, as just checked
  }
  return value
}
