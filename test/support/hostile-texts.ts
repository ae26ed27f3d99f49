/** Units that readers stop at, or begin something with. */
const units = [
  ...[
    'a',
    'A',
    '0',
    '1',
    ' ',
    '\t',
    '.',
    ';',
    ',',
    ':',
    '@',
    '%',
    '/',
    '-',
    '_',
    '+',
    '=',
    '"',
    "'",
    '\\',
    '[',
    '{',
    '(',
  ],
  ...[
    '\n',
    '\r',
    '\r\n',
    '\n\n',
    '\0',
    '#',
    '&',
    '|',
    '>',
    '!',
    '*',
    '?',
    '<',
    '$',
    '~',
    '\u00a0',
    'é',
    '\ud83d\ude00',
  ],
  ...['a.', 'a@', 'a,', ', ', ';a', '/a', '/A;', '%20', '%41', '%2541', '%25252541', '/A;%20%25252541', '%c3%a9'],
  ...['eyJ', 'eyJhbGciOi', 'oat_', 'eyJa.', 'current-org-id=;', 'current-org-id=1; ', 'http:', '::', '1.1.1.1, ', '1:'],
  ...[
    'Bearer ',
    'application/',
    '+json',
    'data:',
    'data: a\n',
    ': a\n',
    'a: b\r\n',
    'a:\n',
    '- a\n',
    '- ',
    '? ',
    '  a:\n',
  ],
  ...[
    '[[',
    '{"a":',
    '\\"',
    '"a":1,',
    '\\u0061',
    '-----',
    '-----BEGIN A-----',
    '\nSigns-From: ',
    'signs from ',
    '1\r\na\r\n',
  ],
  ...[
    'timeout=',
    'timeout=1',
    'GET / HTTP/1.1\r\n',
    '0x',
    '1e',
    'true,',
    'x-',
    'a=1;',
    'a b=',
    '*a ',
    '&a ',
    '!!a ',
    '# a\n',
  ],
  ...[
    '%E2%84%80',
    '%EF%B7%BA',
    '%CC%A1%CC%81',
    '/%C3%A9',
    '//',
    '/..',
    '/%2e',
    'chunked, ',
    'a: 1\n',
    '"\n',
    "'\n",
    '|\n',
  ],
] as const

const pairs = [
  ...[
    ['[', ']'],
    ['{', '}'],
    ['(', ')'],
    ['{"a":', '}'],
    ['[[', ']]'],
    ['"', '"'],
    ['<', '>'],
    ['- ', ''],
    ['a: {', '}'],
    ['[{"a":', '}]'],
    ['%25', '41'],
  ],
] as const

const endings = ['', '!', '\0']

/** One text in any size: what stands in it grows with the size, and nothing else. */
export type HostileText = Readonly<{ name: string; write: (size: number) => string }>

/** Whole units alone: half of one would be refused at once, in one size and not in another. */
const fill = (unit: string, size: number): string => unit.repeat(Math.max(0, Math.floor(size / unit.length)))

/** The number of texts, and the place of the reader that gets its part of the endings. Without a place it gets all. */
type Part = Readonly<{ mixtures: number; place?: number | undefined; isThorough?: boolean }>

/**
 * Repeated units, nested units, and mixtures of two: one after the other by turns, and half and half. A reader with a place
 * gets each unit with one ending of three by turns; a thorough run leaves out one of those that refuse.
 */
export function composeTexts(random: () => number, { mixtures, place, isThorough }: Part): readonly HostileText[] {
  const name = (...parts: readonly string[]): string => JSON.stringify(parts)
  const endingsOf = (index: number): readonly string[] => {
    if (place === undefined) return endings
    const turn = place + index
    return endings.filter((_, at) => (isThorough ? at !== 1 + (turn % 2) : at === turn % endings.length))
  }
  const repeated = units.flatMap((unit, index) =>
    endingsOf(index).map((ending) => ({
      name: name(unit, ending),
      write: (size: number) => fill(unit, size - ending.length) + ending,
    })),
  )
  const nested = pairs.map(([open, close]) => ({
    name: name('nested', open, close),
    write: (size: number) => {
      const depth = Math.floor(size / (open.length + close.length))
      return open.repeat(depth) + close.repeat(depth)
    },
  }))
  const pick = (): string => units[Math.floor(random() * units.length)] ?? 'a'
  const mixed = Array.from({ length: mixtures }, (_, index) => {
    const [first, second, third] = [pick(), pick(), pick()]
    return index % 2 === 0
      ? { name: name(first, second, third), write: (size: number) => fill(first + second + third, size) }
      : { name: name(first, 'then', second), write: (size: number) => fill(first, size / 2) + fill(second, size / 2) }
  })
  return [...repeated, ...nested, ...mixed]
}
