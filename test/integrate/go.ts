import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The module that programs of the tests belong to, with the packages that they may import. */
export const goModule = fileURLToPath(new URL('../../scripts/go', import.meta.url))

const installed = fileURLToPath(new URL('../../.sallyport/go/bin/go', import.meta.url))

/** Go, where there is one that builds the module; `scripts/install-tools.js go` puts one there. */
export function findGo(): string | undefined {
  const wanted = Number(/^go 1\.(\d+)/m.exec(readFileSync(`${goModule}/go.mod`, 'utf8'))?.[1])
  return ['go', ...(existsSync(installed) ? [installed] : [])].find((go) => readMinor(go) >= wanted)
}

/** The reason to skip. */
export const goLack = 'there is no Go that is new enough: run scripts/install-tools.js go'

function readMinor(go: string): number {
  const { stdout } = spawnSync(go, ['env', 'GOVERSION'], { encoding: 'utf8' })
  return Number(/^go1\.(\d+)/.exec(stdout ?? '')?.[1] ?? Number.NaN)
}
