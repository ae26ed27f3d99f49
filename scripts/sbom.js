// `npm run sbom [-- --out FILE]`: what a production install consists of, as CycloneDX 1.5 in JSON. The same lock file gives
// the same bytes: npm's own list has a random number and the time of day, which say nothing about its content.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readProductionProject } from './shrinkwrap.js'

const root = fileURLToPath(new URL('..', import.meta.url))

export function makeSbom() {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-sbom-'))
  try {
    writeProductionProject(folder)
    const npm = process.env.npm_execpath
    const [command, first] = npm ? [process.execPath, [npm]] : ['npm', []]
    const args = [...first, 'sbom', '--sbom-format=cyclonedx', '--package-lock-only', '--loglevel=error']
    return write(JSON.parse(execFileSync(command, args, { cwd: folder, encoding: 'utf8' })))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** npm's own `--omit=dev` leaves out whatever a development dependency needs as well, ajv and pg among them. */
function writeProductionProject(folder) {
  const { project, lock } = readProductionProject()
  writeFileSync(join(folder, 'package.json'), JSON.stringify(project))
  writeFileSync(join(folder, 'package-lock.json'), JSON.stringify(lock))
}

function write(sbom) {
  delete sbom.serialNumber
  delete sbom.metadata.timestamp
  // By the lock file, not by whichever npm wrote it down.
  delete sbom.metadata.tools
  // npm calls it after the folder that it stands in.
  Object.assign(sbom.metadata.component, { name: readJson('package.json').name, type: 'application' })
  sbom.serialNumber = `urn:uuid:${toUuid(createHash('sha256').update(JSON.stringify(sbom)).digest('hex'))}`
  return `${JSON.stringify(sbom, null, 2)}\n`
}

const readJson = (path) => JSON.parse(readFileSync(join(root, path), 'utf8'))

/** A UUID of version 8 (RFC 9562 5.8): its bits are the content's. */
const toUuid = (hex) =>
  [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({ options: { out: { type: 'string', default: join('.sallyport', 'sbom.cdx.json') } } })
  const file = resolve(values.out)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, makeSbom())
  console.log(file)
}
