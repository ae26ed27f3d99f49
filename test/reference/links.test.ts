import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { listAllDocuments } from './code-blocks.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const documents = listAllDocuments()

/** The prose of a document: links in code are examples. */
const readProse = (file: string): string =>
  readFileSync(`${root}${file}`, 'utf8')
    .replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
    .replaceAll(/`[^`\n]*`/g, (code) => code.replaceAll(/[[\]()]/g, ''))

/** The anchor of a heading, as GitHub makes it. */
const makeAnchor = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')

const listAnchors = (file: string): ReadonlySet<string> => {
  const text = readFileSync(`${root}${file}`, 'utf8').replaceAll(/^ *```[\s\S]*?^ *```$/gm, '')
  return new Set([
    ...[...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => makeAnchor(heading)),
    ...[...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id),
  ])
}

/** The relative links of a text, and what is wrong with each that leads nowhere. */
const findDeadLinks = (file: string, text: string): readonly string[] =>
  [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|href|srcset)="([^"]+)"/g)]
    .map(([, link, attribute]) => link ?? attribute ?? '')
    .filter((link) => !/^[a-z]+:/.test(link))
    .flatMap((link) => {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? file : posix.join(posix.dirname(file), path)
      if (!existsSync(`${root}${target}`)) return [`${file}: ${link}: there is no such file`]
      if (anchor === undefined || !target.endsWith('.md') || statSync(`${root}${target}`).isDirectory()) return []
      return listAnchors(target).has(anchor) ? [] : [`${file}: ${link}: the page has no such heading`]
    })

t.test('every relative link of the documents leads to a file, and every anchor to a heading', async (t) => {
  t.ok(documents.length > 40)
  for (const file of documents) t.same(findDeadLinks(file, readProse(file)), [], file)
})

/** Examples of the tests themselves. */
const madeUp = /docs\/[ax]\.md/

/** Pages that messages, alerts, comments and files of configuration name, each as a link from the root. */
const findNamed = (text: string): readonly string[] =>
  [...text.matchAll(/(?<![\w/.-])docs\/[\w/-]+\.md(?:#[\w-]+)?/g)].map(([path]) => `[page](${path})`)

t.test('every page that a program, chart or file of configuration names is there', async (t) => {
  const folders = ['gateway', 'helm', 'config', 'policies', 'examples', 'scripts', 'test']
  const files = folders.flatMap((folder) =>
    readdirSync(`${root}${folder}`, { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(?:ts|js|sql|ya?ml|json|md)$/.test(file) && !file.includes('node_modules'))
      .map((file) => `${folder}/${file}`),
  )
  const named = [...files, 'compose.yaml', 'Dockerfile'].flatMap((file) =>
    findNamed(readFileSync(`${root}${file}`, 'utf8')).map((link) => ({ file, link })),
  )
  t.ok(named.length > 60, `${named.length} names were found`)
  for (const { file, link } of named) if (!madeUp.test(link)) t.same(findDeadLinks('README.md', link), [], file)
})

t.test('a dead link and a dead anchor are found', async (t) => {
  t.match(findDeadLinks('docs/x.md', 'see [it](absent.md)'), [/no such file/])
  t.match(findDeadLinks('README.md', 'see [it](SECURITY.md#absent)'), [/no such heading/])
  t.same(findDeadLinks('README.md', 'see [it](https://example.com/x)'), [])
  t.match(
    findNamed('read docs/x.md#y').flatMap((link) => findDeadLinks('README.md', link)),
    [/no such file/],
  )
})
