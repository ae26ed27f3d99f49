// `npm run site -- --help`. Renders the documents into .sallyport/site-pages.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const help = `Usage: npm run site [-- --serve]

Renders the documents as a site into .sallyport/site-pages, by VitePress.
A link that leads nowhere ends it with 1.

Options:
  --serve     serve the rendered site on 127.0.0.1:4173
  -h, --help  this text

Example:
  $ npm run site`

const inRepository = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url))
const program = inRepository('.sallyport/site/node_modules/vitepress/bin/vitepress.js')
const words = process.argv.slice(2)
const unknown = words.find((word) => !['--serve', '--help', '-h'].includes(word))

if (words.includes('--help') || words.includes('-h')) console.log(help)
else if (unknown !== undefined) {
  console.error(`site: unknown option ${unknown}\n\n${help}`)
  process.exitCode = 2
} else if (!existsSync(program)) {
  console.log('site: skipped, VitePress is missing (node scripts/install-tools.js companions)')
  process.exitCode = process.env.REQUIRE_ALL ? 1 : 0
} else {
  const action = words.includes('--serve') ? ['preview', '--host', '127.0.0.1'] : ['build']
  const [command, ...options] = action
  const { status } = spawnSync(process.execPath, [program, command, inRepository('scripts/site'), ...options], {
    cwd: inRepository(''),
    stdio: 'inherit',
  })
  process.exitCode = status ?? 1
}
