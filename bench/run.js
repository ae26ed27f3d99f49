// `npm run bench:NAME [-- OPTION…]`: installs what is missing, builds, and runs bench/NAME.ts against dist/.
import { spawn, spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from '../scripts/build.js'
import { install } from '../scripts/install.js'
import { imageLine, locateNode } from '../scripts/node-versions.js'

install()
build()

const image = locateNode(imageLine)
const [name, ...options] = process.argv.slice(2)
const loader = `--import=${new URL('typescript.js', import.meta.url)}`
const installer = fileURLToPath(new URL('../scripts/install-node-lts.js', import.meta.url))
const program = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
const child = spawn(chooseNode(), [loader, program, ...options], { stdio: 'inherit' })
// The child has something to clean up first; Ctrl-C reaches it by itself.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.on('exit', (code) => process.exit(code ?? 1))

/**
 * The shipped build is measured. The gateway, and all else on Node, runs on the image's Node unless the environment
 * names another.
 */
function chooseNode() {
  const isAskedForHelp = options.some((option) => ['--help', '-h'].includes(option))
  if (process.env.BENCH_NODE === undefined && !isAskedForHelp && !image.isInstalled())
    spawnSync(process.execPath, [installer], { stdio: ['ignore', 'ignore', 'inherit'] })
  const wanted = process.env.BENCH_NODE ?? (image.isInstalled() ? image.program : process.execPath)
  const version = spawnSync(wanted, ['--version'], { encoding: 'utf8' }).stdout?.trim()
  if (!version) {
    console.error(`BENCH_NODE: there is no Node at ${wanted}`)
    process.exit(2)
  }
  const isImages = version === `v${image.version}`
  const hint = isImages ? "the image's" : `the image's is v${image.version}`
  console.error(`on Node ${version}, ${hint}`)
  return wanted
}
