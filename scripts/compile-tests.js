// Compiles the sources and the helpers of tests that a whole run shares, before its processes start.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { compileAll } from './typescript-hooks.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** One process alone loads a test, and compiles it then. */
const isShared = (file) => file.endsWith('.ts') && !/\.(test|gate|campaign)\.ts$/.test(file)

compileAll(
  ['gateway', 'console', 'demo', 'bench', 'drills', 'test'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true })
      .filter(isShared)
      .map((file) => join(root, folder, file)),
  ),
)
