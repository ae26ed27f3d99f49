import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folders of `scripts/install-tools.js bench` and `scripts/install-tools.js proxies`. */
const folders = ['bench/bin', 'bench/node_modules/.bin', 'proxies/bin'].map((name) =>
  fileURLToPath(new URL(`../../.sallyport/${name}`, import.meta.url)),
)

/** The path of a program, or undefined where this machine has none. */
export function findProgram(name: string): string | undefined {
  // Debian keeps servers where only root's PATH leads.
  const all = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', ...folders]
  return all.map((folder) => join(folder, name)).find(isProgram)
}

/** The reason why a program cannot be run, if there is one. */
export const findLack = (name: string, hint: string): string | undefined =>
  findProgram(name) === undefined ? `there is no ${name} (${hint})` : undefined

/** The path of a program whose lack was asked about before. */
export function requireProgram(name: string): string {
  const path = findProgram(name)
  if (path === undefined) throw new Error(`there is no ${name}`)
  return path
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
