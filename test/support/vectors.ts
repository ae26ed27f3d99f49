import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import type { JsonValue } from './client.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))

/** The folder of published test vectors: `SALLYPORT_VECTORS`, or the one that lies beside the repository. */
const folder = process.env.SALLYPORT_VECTORS
  ? resolve(process.env.SALLYPORT_VECTORS)
  : resolve(repository, '..', 'shared', 'vectors')

/**
 * A test over one file of vectors, or over every file of a folder of them; a file that is not JSON is given as text.
 * Without the file the test is skipped; with `REQUIRE_ALL=1` it fails.
 */
export function testVectors(
  t: Test,
  path: string,
  name: string,
  run: (t: Test, vectors: JsonValue) => void | Promise<void>,
): void {
  const file = join(folder, path)
  if (existsSync(file)) {
    void t.test(name, async (t) => run(t, readVectors(file)))
  } else if (process.env.REQUIRE_ALL === '1') {
    void t.test(name, async (t) => t.fail(`there are no vectors at ${path}`))
  } else {
    void t.test(
      name,
      { skip: `there are no vectors at ${path}; SALLYPORT_VECTORS names their folder` },
      async () => undefined,
    )
  }
}

/** One file is its content; a folder is an object of its files' contents, by name. */
function readVectors(file: string): JsonValue {
  if (file.endsWith('.json')) return JSON.parse(readFileSync(file, 'utf8'))
  if (file.endsWith('.md')) return readFileSync(file, 'utf8')
  const names = readdirSync(file).filter((name) => name.endsWith('.json'))
  return Object.fromEntries(names.map((name) => [name, JSON.parse(readFileSync(join(file, name), 'utf8'))]))
}
