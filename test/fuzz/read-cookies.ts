const name = 'current-org-id'

type Read = (header: string) => readonly string[]

const parts = (header: string, separator: RegExp): readonly (readonly [name: string, value: string])[] =>
  header.split(separator).flatMap((part): readonly (readonly [string, string])[] => {
    const equals = part.indexOf('=')
    return equals < 0 ? [] : [[part.slice(0, equals), part.slice(equals + 1).trim()]]
  })

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const valuesOf = (pairs: readonly (readonly [string, string])[], toName: (name: string) => string): readonly string[] =>
  pairs.filter(([each]) => toName(each) === name).map(([, value]) => value.replace(/^"(.*)"$/, '$1'))

/** How servers read cookies, in their own manner: test/advisories/cookie-parsers.ts has the programs themselves. */
const readers: readonly Read[] = [
  // npm's cookie, Django, Go.
  (header) => valuesOf(parts(header, /;/), (each) => each.trim()),
  // RFC 2109.
  (header) => valuesOf(parts(header, /[;,]/), (each) => each.trim()),
  // Names without case: servlets, ASP.NET.
  (header) => valuesOf(parts(header, /;/), (each) => each.trim().toLowerCase()),
  // Names decoded: Rack, older PHP.
  (header) => valuesOf(parts(header, /;/), (each) => decode(each.trim())),
  // Quoted names.
  (header) => valuesOf(parts(header, /;/), (each) => each.trim().replace(/^"(.*)"$/, '$1')),
]

/** Every organization that some server reads in these `Cookie` lines. */
export const readCookies = (lines: readonly string[]): ReadonlySet<string> =>
  new Set(
    readers.flatMap((read) => [...read(lines.join('; ')), ...read(lines.join(','))]).filter((value) => value !== ''),
  )
