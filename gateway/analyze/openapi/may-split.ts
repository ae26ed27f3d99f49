type Fields = Readonly<Record<string, unknown>>

/**
 * Whether a parameter and its schemas let a part of the path hold slashes. OpenAPI has no word for it, so gateways and
 * frameworks each have their own. The answer is yes too often rather than too seldom.
 */
export function maySplit(name: string, ...facts: readonly Fields[]): boolean {
  if (facts.some((fact) => fact['x-multi-segment'] === true || fact.allowReserved === true)) return true
  // FastAPI drops the converter of `{file_path:path}`, and leaves the name alone.
  if (/(?:^|[_-]|[a-z](?=P))path$/i.test(name) || facts.some(({ format }) => formats.has(String(format)))) return true
  return (
    facts.some(({ description, title }) => tellsOfSlashes(`${description ?? ''} ${title ?? ''}`)) ||
    facts.some((fact) => listExamples(fact).some((text) => text.includes('/'))) ||
    facts.some(({ pattern }) => typeof pattern === 'string' && takesSlashes(pattern))
  )
}

const formats: ReadonlySet<string> = new Set([
  'path',
  'file-path',
  'uri',
  'uri-reference',
  'iri',
  'iri-reference',
  'url',
])

/** Descriptions begin with their subject, and the expressions below must not read megabytes. */
const mostText = 2_048

function tellsOfSlashes(text: string): boolean {
  const words = text.slice(0, mostText).toLowerCase()
  if (/\b(?:no|not|never|without|cannot)\b[^.]{0,40}(?:slash|["'`]\/["'`])/.test(words)) return false
  return /slash|["'`]\/["'`]|(?:multi|multiple|several|more)[ -](?:path )?segments?|\bpath (?:of|to|within|inside|below|under)\b|\b(?:file|full|relative|nested|sub|object) ?path\b/.test(
    words,
  )
}

function listExamples({ example, examples, default: usual, enum: allowed, const: only }: Fields): readonly string[] {
  const more = Array.isArray(examples) ? examples : Object.values(Object(examples)).map((one) => Object(one).value)
  return [example, usual, only, ...more, ...(Array.isArray(allowed) ? allowed : [])].filter(
    (value): value is string => typeof value === 'string',
  )
}

/** A slash that stands in the expression, but not among those that it excludes, or one that it takes in a short text. */
export function takesSlashes(pattern: string): boolean {
  const positive = pattern
    .slice(0, mostText)
    .replaceAll('\0', '/')
    .replace(/\[\^(?:\\.|[^\]\\])*\]/g, '')
  if (positive.includes('/')) return true
  try {
    return new RegExp(`^(?:${pattern.slice(0, mostText)})$`, 'u').test('a/b')
  } catch {
    return false
  }
}
