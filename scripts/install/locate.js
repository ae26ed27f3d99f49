import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

/** The folder of a program, below .sallyport. */
export const locate = (...names) => join(root, '.sallyport', ...names)

/** The folder with its list or lock, below scripts. */
export const locateList = (...names) => join(root, 'scripts', ...names)

export const sumOf = (file) => createHash('sha256').update(readFileSync(file)).digest('hex')

/** Works unless the stamp says that this is there already. A half-made folder has no stamp. */
export function once(stamp, wanted, work) {
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted) return
  rmSync(stamp, { force: true })
  mkdirSync(dirname(stamp), { recursive: true })
  work()
  writeFileSync(stamp, wanted)
}
