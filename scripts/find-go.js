import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const installed = fileURLToPath(new URL('../.sallyport/go/bin/go', import.meta.url))

/** The first Go of PATH, /usr/local/go and .sallyport/go that is new enough; throws without one. */
export function findGo(wantedMinor) {
  const found = ['go', join('/usr', 'local', 'go', 'bin', 'go'), installed].find((go) => {
    const { stdout } = spawnSync(go, ['env', 'GOVERSION'], { encoding: 'utf8' })
    return Number(/^go1\.(\d+)/.exec(stdout ?? '')?.[1]) >= wantedMinor
  })
  if (!found) throw new Error(`Go 1.${wantedMinor} or newer is missing`)
  return found
}
