import type { UserRecord } from '../directory/directory.ts'

export type Principal = Readonly<{ user: UserRecord; credential: PrincipalCredential }>

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
