/**
 * A path begins with a text that servers read in many ways (`gateway/stages/route/readings.ts`), and repeats a unit that is
 * expensive to rewrite.
 */
const beginnings = ['', 'a/A%252E;%2520x%20/', 'A%252525252541;%253B%2520/']
const units = [
  ...['A', '/A;', '/A.', '%20', '%41', '%252541', '%25252541', '/A%20', 'A%25', '/a%2e', '%2Fa', '/A;%20%2541'],
  ...[
    '%C3%A9',
    '/%EF%BC%A1',
    '%EF%B7%BA',
    '/%EF%B7%BA',
    '/%C7%84',
    '%E2%84%80',
    '%CC%A1%CC%81',
    '/A%2525C3%2525A9;%20.',
    '/A%3F%2523;',
  ],
]

/** Paths of 8 KiB, the longest that is read: each one as expensive as its unit can make it. */
export const hostilePaths: readonly string[] = beginnings.flatMap((beginning) =>
  units.map((unit) => `/${beginning}${unit.repeat(Math.floor((8_190 - beginning.length) / unit.length))}`),
)
