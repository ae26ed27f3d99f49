import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { placeSource } from '../support/sources.ts'
import { readDocument } from './code-blocks.ts'

const mostEntries = 30

const root = fileURLToPath(new URL('../../', import.meta.url))

type Entry = Readonly<{ word: string; meaning: string; place: string }>

const entries: readonly Entry[] = [
  ...readDocument('docs/explanation/glossary.md').matchAll(/^\| (.+?) \| (.+) \| `(.+)` \|$/gm),
].map(([, word = '', meaning = '', place = '']) => ({ word, meaning, place }))

/** The words of every source of a file or folder of sources, with those of composed names apart. */
function readWords(place: string): string {
  const path = `${root}${placeSource(place)}`
  const files = place.endsWith('/')
    ? readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
    : ['']
  const text = files.map((file) => readFileSync(`${path}${file}`, 'utf8')).join('\n')
  return text.replaceAll(/([a-z])([A-Z])/g, '$1 $2').toLowerCase()
}

t.test('the glossary has at most thirty words, in order, each with one or two sentences', async (t) => {
  const words = entries.map(({ word }) => word)
  t.ok(words.length > 10, 'the table was found')
  t.ok(words.length <= mostEntries, `${words.length} words`)
  t.same(words, [...new Set(words)].sort())
  for (const { word, meaning } of entries) t.match(meaning, /^[A-Z][^.]*(?:\.\w[^.]*)*\.(?: [A-Z`][^.]*\.)?$/, word)
})

t.test('each word of the glossary is used where the glossary says it lives', async (t) => {
  for (const { word, place } of entries) {
    if (!t.ok(existsSync(`${root}${placeSource(place)}`), `gateway/${place} is there`)) continue
    t.ok(new RegExp(`\\b${word}s?\\b`).test(readWords(place)), `gateway/${place} has "${word}"`)
  }
})
