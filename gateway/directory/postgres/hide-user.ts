import pg from 'pg'

/**
 * Removes the user name of a connection string from PostgreSQL's messages, such as `password authentication failed for
 * user "…"`. Messages of other origin may contain the same word, so they stay.
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

function readUser(url: string): string | undefined {
  try {
    return new pg.Client({ connectionString: url }).user
  } catch {
    return undefined // such a URL cannot connect either
  }
}
