import type { UserRecord } from '../directory/directory.ts'

/** Who it is, and by what proof. */
export type Principal = Readonly<{ user: UserRecord; proof: Proof }>

/** What the credential itself says; an OAuth session is bounded by the user's role alone. */
export type Proof =
  | Readonly<{ kind: 'oauth'; expiresAt: Date }>
  | Readonly<{
      kind: 'api-token'
      id: number
      name: string | null
      abilities: readonly string[]
      lastUsedAt: Date | null
      expiresAt: Date | null
    }>
