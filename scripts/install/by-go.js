import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locate } from './locate.js'

const installed = join(locate('go'), 'bin', 'go')

/** The first Go of PATH, /usr/local/go and .sallyport/go that is new enough, or undefined. */
export const lookForGo = (wantedMinor) =>
  ['go', join('/usr', 'local', 'go', 'bin', 'go'), installed].find((go) => {
    const { stdout } = spawnSync(go, ['env', 'GOVERSION'], { encoding: 'utf8' })
    return Number(/^go1\.(\d+)/.exec(stdout ?? '')?.[1]) >= wantedMinor
  })

export function findGo(wantedMinor) {
  const found = lookForGo(wantedMinor)
  if (!found) throw new Error(`Go 1.${wantedMinor} or newer is missing`)
  return found
}

/** By `go install`, outside of any module. Go verifies each module by its checksum database. */
export function installByGo(go, programs, bin) {
  const options = { stdio: 'inherit', env: { ...process.env, GOBIN: bin }, cwd: tmpdir() }
  for (const program of programs) execFileSync(go, ['install', '-trimpath', program], options)
}

/** In a module of its own, which goes again: `go install` takes no program whose module excludes or replaces others. */
export function inModule(go, goMod, work) {
  const place = mkdtempSync(join(tmpdir(), 'sallyport-go-'))
  try {
    if (goMod !== undefined) writeFileSync(join(place, 'go.mod'), goMod)
    work((...args) => execFileSync(go, args, { cwd: place, stdio: 'inherit' }))
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** Builds each `{ command, version }` into a folder. */
export function buildByGo(go, programs, folder) {
  mkdirSync(folder, { recursive: true })
  for (const { command, version } of programs)
    inModule(go, undefined, (run) => {
      run('mod', 'init', 'tool')
      run('get', `${command}@${version}`)
      run('build', '-mod=mod', '-trimpath', '-buildvcs=false', '-o', `${folder}/`, command)
    })
}
