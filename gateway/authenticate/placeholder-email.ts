import { createHash } from 'node:crypto'

/** An address for a user whose issuer names none: unique, and never deliverable (RFC 2606 2). */
export const placeholderEmail = (issuer: string, subject: string): string =>
  `${createHash('sha256').update(`${issuer}\n${subject}`).digest('hex').slice(0, 32)}@users.invalid`
