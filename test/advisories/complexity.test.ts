// In a process of its own: it measures processor time and the depth of the stack.
import t from 'tap'
import { ConfigurationError } from '../../gateway/policy/configuration-error.ts'
import { parseYaml } from '../../gateway/policy/document.ts'
import { composeTexts } from '../support/hostile-texts.ts'
import { notReaders, type Reader, readers } from '../support/readers.ts'
import { findReadingModules, takesTextApart } from './find-readers.ts'
import { findHarm } from './measure-growth.ts'

/** The same numbers in every run. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff
    return state / 0x80000000
  }
}

const { MIXTURES, CAMPAIGN, THOROUGH } = process.env

/** `MIXTURES` tries more of them, `THOROUGH` each unit with most endings, and `CAMPAIGN` with every one. */
const composeFor = (place: number) =>
  composeTexts(createRandom(21), {
    mixtures: Number(MIXTURES) || 20,
    place: CAMPAIGN ? undefined : place,
    isThorough: THOROUGH !== undefined,
  })

// path-to-regexp CVE-2024-45296: one request delayed all others. Here redaction for the log took 4 s for 64 KiB, and
// the reason of a refusal 2 s for 30 KiB of spaces. The second check of a request line took 4.5 s for 80 KB.
for (const [place, reader] of readers.entries())
  t.test(`${reader.name}: a hostile text takes as long as it is, and no deeper than another`, async (t) => {
    t.equal(findHarm(reader, composeFor(place)), undefined)
  })

const planted = (read: Reader['read']): Reader => ({ name: 'planted', modules: [], largest: 4 * 1024, read })

t.test('a reader that takes quadratic time is found, and one that recurses', async (t) => {
  const descend = (text: string, at = 0): number => (text[at] === '[' ? descend(text, at + 1) : at)
  const texts = composeFor(0)
  t.match(
    findHarm(
      planted((text) => /\s+$/.exec(text)),
      texts,
    ),
    /too fast/,
    'a pattern',
  )
  t.match(
    findHarm(
      planted((text) => /^[\r\n]*[^ \n]+ /.exec(text)),
      texts,
    ),
    /too fast/,
    'two adjacent classes',
  )
  t.match(findHarm({ ...planted(descend), largest: 64 * 1024 }, texts), /overflows/)
  const split = (text: string): unknown => text.split(',').map((part) => part.trim())
  t.equal(findHarm(planted(split), texts), undefined, 'a linear one is not')
})

t.test('every module that takes a text apart is measured, or says why not', async (t) => {
  const modules = findReadingModules()
  const measured = new Set(readers.flatMap((reader) => reader.modules))
  const reasonOf = (module: string): string | undefined =>
    Object.keys(notReaders).find((name) => (name.endsWith('/') ? module.startsWith(name) : module === name))
  const unknown = modules.filter((module) => !measured.has(module) && reasonOf(module) === undefined)
  t.same(unknown, [], 'add it to `readers` or, with a reason, to `notReaders` in test/support/readers.ts')
  const idle = Object.keys(notReaders).filter((name) => !modules.some((module) => reasonOf(module) === name))
  t.same(idle, [], 'a reason that no module needs')
})

t.test('a module is found by its pattern, its calls or its name', async (t) => {
  for (const source of [
    'const pattern = /a/',
    'export const f = (text: string) => text.split(",")',
    'export const f = (text: string): unknown => JSON.parse(text)',
    'export function readThing(bytes: Buffer) { return bytes[0] }',
    'export const parseThing = (bytes: Buffer) => bytes[0]',
  ])
    t.ok(takesTextApart(source), source)
  t.notOk(takesTextApart('export const add = (left: number, right: number) => left + right'))
})

/** The mistakes in a text, by line and column. */
function listProblems(text: string): readonly string[] {
  try {
    parseYaml('f', text)
    return []
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.problems.map(({ line, column, message }) => `${line}:${column} ${message}`)
  }
}

// The package recurses: 8 KiB of brackets ended the process, by a pattern that V8 could not compile on the rest of the
// stack. It also compared each key of a map with each other one.
t.test('YAML that is nested too deeply is a mistake in a file, and no more', async (t) => {
  const deep = ['[', '{"a":', '- ', '? ', 'a: {', ': ', '[{', '\n - ['].map((unit) => unit.repeat(4_096))
  const stairs = Array.from({ length: 600 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')
  for (const text of [...deep, stairs])
    t.match(listProblems(text), [/^(?!1:1 )\d+:\d+ is nested more than 64 levels deep$/], text.slice(0, 9))
  for (const text of [`a: ${'['.repeat(20)}${']'.repeat(20)}`, `a: ${'-'.repeat(100)}`, '---\na: 1'])
    t.same(listProblems(text), [], text)
  t.same(listProblems('a: 1\nb: { c: 1, c: 2 }\na: 2'), [
    '3:1 "a" stands twice in this section; keep one',
    '2:12 "c" stands twice in this section; keep one',
  ])
})
