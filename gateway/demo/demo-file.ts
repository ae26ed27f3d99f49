import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const name = 'demo.json'

/** Writes `.sallyport/demo.json` whole: whoever waits for it never reads half of one. */
export function writeDemoFile(directory: string, description: unknown): string {
  const file = join(directory, name)
  const draft = `${file}.${process.pid}`
  writeFileSync(draft, `${JSON.stringify(description, null, 2)}\n`, { mode: 0o600 })
  renameSync(draft, file)
  return file
}

/** The file stands only while the world does. */
export const removeDemoFile = (directory: string): void => rmSync(join(directory, name), { force: true })
