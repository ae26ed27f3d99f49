import type { Awaitable } from '../base/lib/awaitable.ts'

export type Login = Readonly<{
  issuer: string
  /** `sub`, or the mapped subject of a JWT without one. */
  subject: string
  /** The subject by `claims.subject`, if it differs from `sub`: an issuer may name either one. */
  mapped?: string
  address: Readonly<{ issuer: string; subject: string }> | undefined
  session: string | undefined
  issuedAt: number | undefined
  isOverlong: boolean
}>

/**
 * Ends the logins until `at` of a session, of a subject, or of both together. An empty text stands for any, so that two
 * empty ones end all logins of the issuer.
 */
export type Logout = Readonly<{ issuer: string; subject: string; session: string; at: number; expiresAt: number }>

export const receiptsOf = (issuer: string): string => `${issuer}#received`

export type ReceivedLogout = Logout &
  Readonly<{ credential: 'logout-token' | 'security-event'; clientAddress: string; requestId: string }>

export type Logouts = Readonly<{
  requireLoggedIn: (login: Login) => Awaitable<void>
  hasEnded: (login: Login) => boolean
  /** The moment of the first logout that was heard and is not read yet; infinity where all are read. */
  unreadSinceMs: () => number
}>

export const noLogouts: Logouts = {
  requireLoggedIn: () => undefined,
  hasEnded: () => false,
  unreadSinceMs: () => Number.POSITIVE_INFINITY,
}
