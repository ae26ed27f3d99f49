import { createCipheriv, createDecipheriv, hkdfSync, type KeyObject } from 'node:crypto'

export type PageTokens = Readonly<{
  seal: (position: string, bound: string) => string
  open: (token: string, bound: string) => string | undefined
}>

export type PageTokenOptions = Readonly<{ privateKey: () => KeyObject; drawBytes: (count: number) => Buffer }>

const algorithm = 'aes-256-gcm'

/**
 * NIST SP 800-38D wants a nonce of 96 bits, and a full tag has 128. One block hides the length of an id, which has at
 * most 128 characters. Such a token has 251 characters, and much longer ones are not decoded.
 */
const nonceBytes = 12
const tagBytes = 16
const blockBytes = 160
const mostCharacters = 1_024

/**
 * Encrypts positions, since one may be an id that the answer does not tell. The key is derived from the key that signs
 * identity headers, which all workers and replicas have.
 */
export function createPageTokens({ privateKey, drawBytes }: PageTokenOptions): PageTokens {
  const keys = new WeakMap<KeyObject, Buffer>()
  const chooseKey = (): Buffer => {
    const signing = privateKey()
    const key = keys.get(signing) ?? deriveKey(signing)
    keys.set(signing, key)
    return key
  }
  return {
    seal: (position, bound) => {
      const nonce = drawBytes(nonceBytes)
      const cipher = createCipheriv(algorithm, chooseKey(), nonce).setAAD(Buffer.from(bound))
      const sealed = Buffer.concat([cipher.update(padToBlocks(position)), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url')
    },
    open: (token, bound) => {
      if (token.length > mostCharacters) return undefined
      const bytes = Buffer.from(token, 'base64url')
      const start = nonceBytes + tagBytes
      // Node's decoder also takes padding, other alphabets and stray bits, so one token would have many spellings.
      if (bytes.length <= start || bytes.toString('base64url') !== token) return undefined
      const decipher = createDecipheriv(algorithm, chooseKey(), bytes.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      })
      decipher.setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(nonceBytes, start))
      try {
        return unpad(Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()]))
      } catch {
        return undefined
      }
    },
  }
}

const deriveKey = (signing: KeyObject): Buffer => {
  const secret = signing.export({ format: 'der', type: 'pkcs8' })
  return Buffer.from(hkdfSync('sha256', secret, '', 'sallyport authzen page', 32))
}

function padToBlocks(position: string): Buffer {
  const text = Buffer.from(position)
  const blocks = Math.ceil((text.length + 1) / blockBytes)
  return Buffer.concat([text, Buffer.alloc(blocks * blockBytes - text.length)])
}

const unpad = (padded: Buffer): string => padded.subarray(0, padded.indexOf(0)).toString()
