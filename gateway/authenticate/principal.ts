import type { UserRecord } from '../directory/directory.ts'

/** The user, and the credential that proved it. */
export type Principal = Readonly<{ user: UserRecord; credential: PrincipalCredential }>

/** What the credential itself says; an OAuth session is bounded by the user's role alone. */
export type PrincipalCredential =
  | Readonly<{ kind: 'oauth'; expiresAt: Date }>
  | Readonly<{
      kind: 'api-token'
      id: number
      name: string | null
      abilities: readonly string[]
      lastUsedAt: Date | null
      expiresAt: Date | null
    }>
