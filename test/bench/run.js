// `npm run bench:NAME [-- OPTION…]`: installs what is missing, builds, and runs test/bench/NAME.ts against dist/.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from '../../scripts/build.js'
import { install } from '../../scripts/install.js'

install()
build()

const [name, ...options] = process.argv.slice(2)
const loader = `--import=${new URL('typescript.js', import.meta.url)}`
const program = fileURLToPath(new URL(`${name}.ts`, import.meta.url))
const child = spawn(process.execPath, [loader, program, ...options], { stdio: 'inherit' })
// The child has something to clean up first; Ctrl-C reaches it by itself.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.on('exit', (code) => process.exit(code ?? 1))
