import { readFileSync, statfsSync } from 'node:fs'
import { freemem } from 'node:os'

/** The files of a run's databases, their programs among them, need less than a tenth. */
const roomBytes = 4e9

/**
 * A folder in memory for the files of PostgreSQL: a file system on a disk takes most of a clone's time, and of a new server's.
 * Undefined where the machine has none with room, or none that runs programs.
 */
export function findMemoryFolder() {
  const folder = '/dev/shm'
  try {
    const mount = readFileSync('/proc/mounts', 'utf8')
      .split('\n')
      .map((line) => line.split(' '))
      .find(([, place, kind]) => place === folder && kind === 'tmpfs')
    const { bavail, bsize } = statfsSync(folder)
    const hasRoom = bavail * bsize > roomBytes && freemem() > roomBytes
    if (mount !== undefined && !mount[3].split(',').includes('noexec') && hasRoom) return folder
  } catch {
    // Another system.
  }
}

/** One PostgreSQL for a run. Each world clones its database, which has all but the addresses of that world. */
export async function startTestDatabase(root) {
  const [{ startPostgres }, { populate }] = await Promise.all([
    import('../dist/demo/postgres.js'),
    import('../dist/demo/world.js'),
  ])
  // A worker of autovacuum is the superuser's, and lets no other role drop its database by force.
  // A random password of 24 bytes needs no slow hash, and tests open thousands of connections.
  const settings = ['max_connections=400', 'autovacuum=off', 'scram_iterations=1']
  const postgres = await startPostgres({ settings, root })
  const nowhere = 'http://127.0.0.1:1'
  const clusters = { healthy: nowhere, globex: nowhere, unreachable: nowhere }
  return { ...postgres, population: await populate(postgres.url, nowhere, clusters) }
}
