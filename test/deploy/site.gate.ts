import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { listDocuments } from '../reference/code-blocks.ts'
import { openPage, startChromium, testChromium } from '../support/chromium.ts'
import { run } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = join(root, '.sallyport/site-pages')
const lack = existsSync(join(root, '.sallyport/site/.lock'))
  ? undefined
  : 'VitePress is missing (node scripts/install-tools.js companions)'

const listFiles = (ending: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith(ending))

/** Links of a page to other hosts are for readers; its browser loads nothing from there. */
const findOutside = (html: string): readonly string[] =>
  [...html.matchAll(/<(?:script|link|img|iframe|source|video)\b[^>]*?\b(?:src|href)="((?:https?:)?\/\/[^"]+)"/g)].map(
    ([, address = '']) => address,
  )

/** Links of a page within the site that lead to no file of it. */
const findDead = (page: string, html: string): readonly string[] =>
  [...html.matchAll(/<a\b[^>]*? href="([^"#]+)(?:#[^"]*)?"/g)]
    .map(([, href = '']) => href)
    .filter((href) => !/^[a-z]+:/.test(href))
    .filter((href) => {
      const file = join(folder, href.startsWith('/') ? href : posix.join(posix.dirname(page), href))
      return ![file, `${file}.html`, join(file, 'index.html')].some(
        (name) => existsSync(name) && statSync(name).isFile(),
      )
    })

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
}

/** Serves the rendered pages, and answers 404 for the rest. */
async function serveSite(t: Test): Promise<string> {
  const server = createServer((request, response) => {
    const path = decodeURI(new URL(request.url ?? '/', 'http://site').pathname)
    const file = join(folder, path.endsWith('/') ? `${path}index.html` : path)
    if (!file.startsWith(folder) || !existsSync(file)) return response.writeHead(404).end()
    return response.writeHead(200, { 'content-type': types[extname(file)] ?? 'text/plain' }).end(readFileSync(file))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // it listens on TCP
  return `http://127.0.0.1:${port}`
}

testUnlessLacking(t, 'the documents render as a site', testSite, lack)

async function testSite(t: Test): Promise<void> {
  const { code, stderr } = await run(process.execPath, ['scripts/site.js'], { cwd: root })
  t.equal(code, 0, stderr)

  t.test('each document has its page, whose links lead to files and whose parts are its own', async (t) => {
    const pages = listFiles('.html').filter((file) => file !== '404.html')
    const wanted = listDocuments().map((file) => file.replace(/README\.md$/, 'index.html').replace(/\.md$/, '.html'))
    t.same(
      wanted.filter((file) => !pages.includes(file)),
      [],
    )
    for (const page of pages) {
      const html = readFileSync(join(folder, page), 'utf8')
      t.same(findOutside(html), [], page)
      t.same(findDead(page, html), [], page)
    }
    for (const style of listFiles('.css')) t.notMatch(readFileSync(join(folder, style), 'utf8'), /url\(["']?https?:/)
  })

  testChromium(t, 'pages fit a desktop and a telephone, and ask no other host', async (t) => {
    const address = await serveSite(t)
    const browser = await startChromium(t)
    for (const width of [1280, 390])
      for (const path of ['index.html', 'docs/index.html', 'docs/guides/run.html', 'docs/reference/errors.html']) {
        const { page, complaints, origins } = await openPage(browser, `${address}/${path}`, {
          viewport: { width, height: 900 },
        })
        await page.waitForSelector('h1')
        t.same(complaints, [], `${path} at ${width}`)
        t.same(origins(), [address], `${path} at ${width}`)
        const overflow = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        )
        t.equal(overflow, 0, `${path} at ${width} scrolls down alone`)
        await page.context().close()
      }
  })
}

t.test('a part from another host and a dead link are found', async (t) => {
  t.same(findOutside('<script async src="https://cdn.example/x.js"></script><a href="https://example.com">x</a>'), [
    'https://cdn.example/x.js',
  ])
  t.same(findDead('docs/x.html', '<a href="./absent.html#y">x</a>'), ['./absent.html'])
})
