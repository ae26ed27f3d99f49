import pg from 'pg'

/**
 * Takes the name of a connection string's user out of what PostgreSQL says of it, such as `password authentication failed
 * for user "…"`, and gives the error back. Messages of other origin stay as they are: they may hold the same word.
 */
export function createHideUser(url: string): <Thrown>(error: Thrown) => Thrown {
  const name = readUser(url)
  if (!name) return (error) => error
  const pattern = new RegExp(`(?<![\\w-])${name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}(?![\\w-])`, 'g')
  return (error) => {
    if (error instanceof pg.DatabaseError) {
      error.message = error.message.replace(pattern, '[redacted]')
      if (error.stack !== undefined) error.stack = error.stack.replace(pattern, '[redacted]')
    }
    return error
  }
}

/** As the driver reads it, its defaults included. */
function readUser(url: string): string | undefined {
  try {
    return new pg.Client({ connectionString: url }).user
  } catch {
    return undefined // nothing can be connected by it either
  }
}
