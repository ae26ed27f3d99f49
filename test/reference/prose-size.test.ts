import t from 'tap'
import { listAllDocuments, readDocument } from './code-blocks.ts'
import { generatedMark } from './markdown.ts'

/** A reader takes a page in at once. Generated pages are searched and not read. */
const mostWords = 1_500
/** Pages that may be longer, since a reader leaves them early or enters them at a heading. */
const longer: Readonly<Record<string, number>> = {
  // One guide of adoption: a backend whose keys are integers needs no more than its first three quarters.
  'docs/guides/adopt-a-database.md': 2_000,
  // A section for each alert, to which its link leads; the console serves the page whole.
  'docs/guides/runbook.md': 4_000,
  // A section for each change, of which an upgrade meets few.
  'docs/guides/upgrade.md': 2_000,
}
const mostWordsOfRecord = 400
const longestAverage = 18

const documents = listAllDocuments()
const pages = documents.filter((file) => file.startsWith('docs/'))
const isGenerated = (file: string): boolean => readDocument(file).includes(generatedMark)
const readable = pages.filter((file) => !(file.startsWith('docs/reference/') && isGenerated(file)))
const records = pages.filter((file) => /^docs\/explanation\/decisions\/\d/.test(file))

const withoutCode = (text: string): string => text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')

/** Words outside of fenced code, those of tables and headings among them. */
const countWords = (text: string): number => withoutCode(text).match(/\S*\w\S*/g)?.length ?? 0

/** The sentences of paragraphs and lists. */
const listSentences = (text: string): readonly string[] =>
  withoutCode(text)
    .replaceAll(/^(?:\||#|<!--|!\[).*$/gm, '\n')
    .replaceAll(/^ *(?:[-*]|\d+\.) /gm, '\n\n')
    .replaceAll(/`[^`]*`/g, 'code')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .split(/\n\s*\n|(?<=[.!?][*"')]*)\s+/)
    .map((sentence) => sentence.trim())
    .filter((sentence) => /\w/.test(sentence))

const averageLength = (text: string): number => {
  const sentences = listSentences(text)
  return sentences.reduce((sum, sentence) => sum + countWords(sentence), 0) / Math.max(1, sentences.length)
}

t.test('a page has at most 1,500 words', async (t) => {
  for (const file of Object.keys(longer)) t.ok(readable.includes(file), file)
  t.ok(readable.length > 40, 'the pages were found')
  t.equal(pages.length - readable.length, 4, 'all but commands, configuration, policies and errors')
  for (const file of readable) {
    const words = countWords(readDocument(file))
    t.ok(words <= (longer[file] ?? mostWords), `${file} has ${words} words`)
  }
})

t.test('the sentences of a page have at most 18 words on average', async (t) => {
  for (const file of documents) {
    const average = averageLength(readDocument(file))
    t.ok(average <= longestAverage, `${file} has ${average.toFixed(1)} words a sentence`)
  }
})

t.test('a decision has a title, a date, a status and three sections, in at most 400 words', async (t) => {
  const index = readDocument('docs/explanation/decisions/README.md')
  t.ok(records.length > 10, 'the records were found')
  for (const file of records) {
    const text = readDocument(file)
    const [, number, slug] = /(\d{4})-(.+)\.md$/.exec(file) ?? []
    const title = text.slice(0, text.indexOf('\n')).replace(/^# \d+\. /, '')
    t.match(text, new RegExp(`^# ${Number(number)}\\. \\S.*\\n\\n- Date: \\d{4}-\\d\\d-\\d\\d\\n- Status: \\w`), file)
    t.same(
      [...text.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading),
      ['Context', 'Decision', 'Consequence'],
      file,
    )
    t.ok(countWords(text) <= mostWordsOfRecord, `${file} has ${countWords(text)} words`)
    t.ok(index.includes(`| [${Number(number)}](${number}-${slug}.md) | ${title} |`), `the index has ${file}`)
  }
})

t.test('long sentences and pages are measured', async (t) => {
  t.equal(countWords('one two\n```sh\nthree\n```\n| four | 5 |\n'), 4)
  t.same(listSentences('# Title\n\nOne. Two: two.\n\n- three `a b` four\n- five\n'), [
    'One.',
    'Two: two.',
    'three code four',
    'five',
  ])
  t.equal(averageLength('a b c. d e f g h.'), 4)
})
