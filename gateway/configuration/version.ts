import { readFileSync } from 'node:fs'
import { packageRoot } from '../base/lib/package-root.ts'

/** Raised when policies of the release before must be rewritten. */
const policyVersion = 1

export function readVersion(): string {
  const description = readFileSync(new URL('package.json', packageRoot), 'utf8')
  return (JSON.parse(description) as { version: string }).version
}

export async function describeVersions() {
  // Loaded only here: the database driver is slow to load, and help and health checks need no version of the schema.
  const { newestVersion } = await import('../directory/postgres/migrate.ts')
  return {
    version: readVersion(),
    node: process.version,
    commit: readCommit(),
    policy: policyVersion,
    schema: { own: newestVersion('own'), adopted: newestVersion('adopted') },
  }
}

/** Only a build of a commit has the file; that of a changed working tree does not. */
function readCommit(): string | null {
  try {
    return readFileSync(new URL('dist/commit', packageRoot), 'utf8').trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return null
  }
}
