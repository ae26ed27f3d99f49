import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { listDocuments, readDocument } from './code-blocks.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const readme = readDocument('README.md')

/** The words by which people search for a program like this one. */
const searched = ['ext_authz', 'ForwardAuth', 'auth_request', 'OIDC', 'JWT', 'API key', 'multi-tenant', 'sidecar']
const mostLinks = 8
const linesOfScreen = 40
const mostDecisions = 20
const mostWordsOfChange = 20

t.test('README and package name the words that people search for', async (t) => {
  const { keywords, description }: Readonly<{ keywords: readonly string[]; description: string }> = JSON.parse(
    readDocument('package.json'),
  )
  for (const word of searched) {
    t.ok(readme.includes(word), `README.md has ${word}`)
    const keyword = word.toLowerCase().replace('api key', 'api-keys')
    t.ok(keywords.includes(keyword), `package.json has ${keyword}`)
  }
  t.same(keywords, [...new Set(keywords)].sort())
  t.ok(description.length < 160, 'registries show it whole')
})

t.test('the README leads to the best first path before its second screen ends', async (t) => {
  const [before = ''] = readme.split('](docs/tutorials/your-platform.md)')
  t.ok(before.split('\n').length < 2 * linesOfScreen, 'Your platform')
})

t.test('the README shows the console, and leads on by at most eight links', async (t) => {
  const [, description = '', picture = ''] = /!\[([^\]]+)\]\(([^)]+\.png)\)/.exec(readme) ?? []
  t.ok(existsSync(`${root}${picture}`), picture)
  t.match(description, /console/)
  const table = readme.slice(readme.indexOf('| You want to |'))
  const links = table.match(/^\|.*\]\(.*$/gm) ?? []
  t.ok(links.length > 4, 'the table was found')
  t.ok(links.length <= mostLinks && links.every((line) => line.match(/\]\(/g)?.length === 1), `${links.length} links`)
})

type Item = Readonly<{ text: string; link: string; items?: readonly Item[] }>
type Sidebar = Readonly<{ composeSidebar: (root: string) => readonly Readonly<{ items: readonly Item[] }>[] }>

t.test('the index of the documents, and with it the sidebar, leads to each page once', async (t) => {
  const { composeSidebar }: Sidebar = await import(new URL('../../scripts/site/sidebar.js', import.meta.url).href)
  const items = composeSidebar(root).flatMap((section) => section.items)
  const links = items.flatMap((item) => [item, ...(item.items ?? [])]).map(({ link }) => link)
  t.same(links, [...new Set(links)], 'no page twice')
  for (const { text, link } of items) t.not(text, '', link)
  const lost = listDocuments()
    .filter((file) => file.startsWith('docs/') && file !== 'docs/README.md')
    .filter((file) => !links.includes(`/${file.replace(/(?:README)?\.md$/, '')}`))
  t.same(lost, [], 'each page, or the index of its folder')
})

t.test('a change is told in one line of at most twenty words', async (t) => {
  const body = readDocument('CHANGELOG.md').replace(/^[\s\S]*?^## /m, '')
  const lines = body
    .split('\n')
    .slice(1)
    .filter((line) => line !== '' && !line.startsWith('#'))
  t.ok(lines.length > 50)
  for (const line of lines) {
    t.ok(line.startsWith('- '), line)
    const words = line
      .slice('- '.length)
      .replaceAll(/`[^`]*`/g, 'code')
      .split(' ')
    t.ok(words.length <= mostWordsOfChange, line)
  }
})

t.test('decisions are few: the rest stands beside its rule', async (t) => {
  const records = readdirSync(`${root}docs/explanation/decisions`).filter((file) => /^\d/.test(file))
  t.ok(records.length <= mostDecisions, `${records.length} decisions`)
})

t.test('an editor finds the schema of each configuration and policy', async (t) => {
  const files = ['config', 'policies', 'examples/compose'].flatMap((folder) =>
    readdirSync(`${root}${folder}`)
      .filter((file) => file.endsWith('.yaml'))
      .map((file) => `${folder}/${file}`),
  )
  t.ok(files.length > 8)
  for (const file of files) {
    const [, schema = ''] =
      /^# yaml-language-server: \$schema=(\S+)\n/.exec(readFileSync(`${root}${file}`, 'utf8')) ?? []
    t.ok(schema !== '' && existsSync(`${root}${posix.join(posix.dirname(file), schema)}`), file)
  }
})
