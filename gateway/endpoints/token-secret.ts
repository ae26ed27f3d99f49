import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** A new secret, and what the store keeps of it. */
export type TokenSecret = Readonly<{ secret: string; hash: string }>

/** Draws an integer from 0 up to, but not including, the limit; cryptographically random. */
export type DrawInteger = (limit: number) => number

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const randomLength = 40

/** 40 characters, which is 238 bits, and their checksum, so that scanners know a token without asking anybody. */
export function makeSecret(draw: DrawInteger): TokenSecret {
  const random = Array.from({ length: randomLength }, () => base62.charAt(draw(base62.length))).join('')
  const secret = `${random}${crc32(random)}`
  return { secret, hash: createHash('sha256').update(secret).digest('hex') }
}

/** The raw token (SPEC section 2.6); it exists in one answer and nowhere else. */
export const formatToken = (id: number, secret: string): string =>
  `oat_${toBase64Url(String(id))}.${toBase64Url(secret)}`

const toBase64Url = (text: string): string => Buffer.from(text).toString('base64url')
