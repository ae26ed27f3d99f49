// `npm run coverage [-- FILE…]`: runs the tests, and tells the covered part of gateway/, with pages in coverage/.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const pages = join(root, 'coverage')
const counted = join(pages, 'counted')
const ofGateway = (url) =>
  /^(gateway|console)\//.test(url.slice(new URL('..', import.meta.url).href.length)) || url.includes('/dist/')
const isOurs = (url) => ofGateway(url) && !url.includes('/node_modules/')

rmSync(pages, { recursive: true, force: true })
const tests = run([join(root, 'scripts', 'test.js'), ...process.argv.slice(2)], { NODE_V8_COVERAGE: counted })
for (const name of readdirSync(counted)) keepOurs(join(counted, name))
const c8 = join(dirname(createRequire(import.meta.url).resolve('c8/package.json')), 'bin', 'c8.js')
const reporters = ['--reporter=text-summary', '--reporter=html']
const folders = [`--temp-directory=${counted}`, `--reports-dir=${pages}`, '--src=gateway']
// Lines that no test loads count as well.
const rules = ['--all', '--include=gateway/**', '--exclude-after-remap', '--merge-async']
const report = run([c8, 'report', ...folders, ...rules, ...reporters])
rmSync(counted, { recursive: true, force: true })
console.log(`\nEach file's lines: ${join(pages, 'index.html')}`)
process.exit(tests || report)

function run(args, environment = {}) {
  const options = { cwd: root, stdio: 'inherit', env: { ...process.env, ...environment } }
  return spawnSync(process.execPath, args, options).status ?? 1
}

/** Each process also counts its packages, which take many times the room. A killed process leaves half a file. */
function keepOurs(file) {
  try {
    const { result, 'source-map-cache': maps = {} } = JSON.parse(readFileSync(file, 'utf8'))
    const ours = result.filter(({ url }) => isOurs(url))
    const kept = Object.fromEntries(Object.entries(maps).filter(([url]) => isOurs(url)))
    if (ours.length === 0) rmSync(file)
    else writeFileSync(file, JSON.stringify({ result: ours, 'source-map-cache': kept }))
  } catch {
    rmSync(file)
  }
}
