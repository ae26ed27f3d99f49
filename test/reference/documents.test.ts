import { readFileSync } from 'node:fs'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { listCodeBlocks, listDocuments, readDocument } from './code-blocks.ts'
import { findCalls, findMistake } from './command-lines.ts'
import { readCommands } from './reference.ts'
import { findMistakes } from './yaml-kind.ts'

const blocks = listCodeBlocks()
const commands = await readCommands()

t.test('the schemas accept the YAML of the documents', async (t) => {
  const shown = blocks.filter(({ language }) => language === 'yaml')
  t.ok(shown.length > 25)
  for (const { file, line, text } of shown)
    for (const document of parseAllDocuments(text)) {
      t.same(document.errors, [], `${file}:${line}`)
      t.same(findMistakes(document.toJS()), [], `${file}:${line}`)
    }
})

t.test('every call of sallyport in the documents and in the help is one that the command line takes', async (t) => {
  const shown = blocks
    .filter(({ language }) => ['sh', 'bash', ''].includes(language))
    .flatMap(({ file, line, text }) => findCalls(text).map((call) => ({ call, place: `${file}:${line}` })))
  const helped = commands.flatMap(({ name, examples }) =>
    findCalls(examples.join('\n')).map((call) => ({ call, place: `${name} --help` })),
  )
  t.ok(shown.length > 50)
  t.ok(helped.length > 20)
  for (const { call, place } of [...shown, ...helped])
    t.equal(findMistake(call, commands), undefined, `${place}: ${call}`)
})

t.test('every command that the documents mention in a sentence is there', async (t) => {
  for (const file of listDocuments()) {
    const prose = readDocument(file).replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
    for (const [, mention = ''] of prose.matchAll(/`(?:npx )?(sallyport [a-z][^`]*)`/g)) {
      const words = mention.split(/\s+/).filter((word) => /^[a-z]+(?:-[a-z]+)*$/.test(word))
      const isThere = commands.some(({ name }) => `${name} `.startsWith(`${words.slice(0, 2).join(' ')} `))
      t.ok(isThere, `${file}: ${mention}`)
    }
  }
})

t.test('every script that the documents run is there', async (t) => {
  const { scripts } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  for (const file of listDocuments())
    for (const [, name = ''] of readDocument(file).matchAll(/npm run (?:--\w+ )*([\w:-]+)/g))
      t.ok(scripts[name], `${file}: npm run ${name}`)
})

t.test('a mistake of each kind is found', async (t) => {
  for (const call of [
    'serve --configuration x',
    'keys make',
    'clusters suspend',
    'clusters suspend 7 8',
    'tokens list',
    'policy explain GET',
    'migrate --config',
  ])
    t.type(findMistake(call, commands), 'string', call)
  t.equal(
    findMistake('tokens mint --organization 1 --user 8 --scope api-key --name "nightly import"', commands),
    undefined,
  )
  t.equal(findMistake('policy explain DELETE /x --role=org-member $MORE', commands), undefined)
  t.same(findCalls('A=$(npx sallyport tokens list \\\n  --user 8) # sallyport x y\ncat a | sallyport b > c'), [
    'tokens list  --user 8',
    'b',
  ])
  for (const wrong of [
    { listeners: { publik: { port: 1 } } },
    { drain: { delayMs: -1 } },
    { routes: [{ id: 'x', match: { path: '/x' }, surface: 'platform', upsteam: 'platform' }] },
    [{ id: 'x', match: { path: '/x' }, surface: 'plattform', upstream: 'platform' }],
    { tests: [{ requests: ['x'], callers: [{}], expect: 'deny' }] },
    { whatever: 1 },
  ])
    t.ok(findMistakes(wrong).length > 0, JSON.stringify(wrong))
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a placeholder of the configuration
  t.same(findMistakes({ database: { url: '${DATABASE_URL}' }, redis: { url: 'file:/run/secrets/redis' } }), [])
})
