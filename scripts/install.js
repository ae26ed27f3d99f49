// Installs the packages of the lock file where they are missing or no longer the ones it names.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Says again every few seconds that work goes on which keeps this thread. Standard output is for `npm pack --json`. */
export function runStep(name, work, everyMs = 3_000) {
  const begun = Date.now()
  console.error(name)
  const ticker = new Worker(tick, { eval: true, execArgv: [], workerData: { name, begun, everyMs } })
  try {
    return work()
  } finally {
    ticker.terminate()
  }
}

const tick = `
const { name, begun, everyMs } = require('node:worker_threads').workerData
const tell = () => require('node:fs').writeSync(2, name + ' ' + Math.round((Date.now() - begun) / 1000) + ' s\\n')
setInterval(tell, everyMs)`

export function install() {
  // By itself: in the image no other script stands beside this one yet.
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const floor = engines.node.replace('>=', '')
  const [leastMajor, leastMinor] = floor.split('.').map(Number)
  const [major, minor] = process.versions.node.split('.').map(Number)
  if (major < leastMajor || (major === leastMajor && minor < leastMinor)) {
    console.error(`Sallyport needs Node ${floor} or newer; this is ${process.versions.node}`)
    process.exit(2)
  }
  const stamp = join(root, 'node_modules', '.sallyport-lock')
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  if (!isInstalled(root)) runNpm()
  writeFileSync(stamp, lock)
}

/**
 * Whether `node_modules` holds the packages of the lock file already, as after `npm ci`. npm itself writes the list at the
 * end of an installation. Optional packages may be missing, because most of them are for other platforms.
 */
export function isInstalled(folder) {
  const list = join(folder, 'node_modules', '.package-lock.json')
  if (!existsSync(list)) return false
  const [wanted, installed] = [join(folder, 'package-lock.json'), list].map(
    (file) => JSON.parse(readFileSync(file, 'utf8')).packages,
  )
  return Object.entries(wanted).every(([path, { integrity, optional = false }]) => {
    const found = installed[path]
    return path === '' || (found ? found.integrity === integrity : optional)
  })
}

function runNpm() {
  // An `npm pack` that was killed may have left it; npm would take it for the lock file.
  rmSync(join(root, 'npm-shrinkwrap.json'), { force: true })
  const npm = process.env.npm_execpath
  const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
  // No package's scripts run: nothing here needs them.
  const args = [...first, 'ci', '--ignore-scripts', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']
  runStep('Installing packages …', () => execFileSync(command, args, { cwd: root, stdio: 'inherit' }))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) install()
