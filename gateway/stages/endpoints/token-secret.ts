import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'

export type TokenSecret = Readonly<{ secret: string; hash: string }>

export type DrawInteger = (limit: number) => number

const base62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

// As AdonisJS draws (SPEC section 2.6).
const randomLength = 40

/** 40 characters have 238 bits. The checksum lets secret scanners recognize a token offline. */
export function makeSecret(draw: DrawInteger): TokenSecret {
  const random = Array.from({ length: randomLength }, () => base62.charAt(draw(base62.length))).join('')
  const secret = `${random}${crc32(random)}`
  return { secret, hash: createHash('sha256').update(secret).digest('hex') }
}

/** Formats the raw token (SPEC section 2.6), which only one response ever holds. */
export const formatToken = (id: number, secret: string): string =>
  `oat_${toBase64Url(String(id))}.${toBase64Url(secret)}`

const toBase64Url = (text: string): string => Buffer.from(text).toString('base64url')
