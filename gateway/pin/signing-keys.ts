import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, type JWK } from 'jose'
import { type KeyBlock, readKeyBundle } from './key-bundle.ts'

export type SigningAlgorithm = 'EdDSA' | 'ES256'

/** A key of the identity header. */
export type SigningKey = Readonly<{
  algorithm: SigningAlgorithm
  kid: string
  privateKey: KeyObject
  /** Its public part, as backends fetch it. */
  published: JWK
  /** The hour from which it signs, unless another came later; 0 is ever since. */
  signsFromMs: number
}>

/** Reads the private keys of one key file, in their order. Rejects with a sentence that never quotes a key. */
export async function readSigningKeys(text: string, algorithm: SigningAlgorithm): Promise<readonly SigningKey[]> {
  const blocks = readKeyBundle(text)
  return Promise.all(blocks.map((block, index) => readSigningKey(block, `block ${index + 1}`, algorithm)))
}

async function readSigningKey(block: KeyBlock, place: string, algorithm: SigningAlgorithm): Promise<SigningKey> {
  const privateKey = readPrivateKey(block, place)
  if (algorithmOf(privateKey) !== algorithm) throw new Error(`${place} does not fit ${algorithm}`)
  const jwk = await exportJWK(createPublicKey(privateKey))
  // The key id is the key's own thumbprint (RFC 7638): it cannot be given to another key by mistake.
  const kid = await calculateJwkThumbprint(jwk)
  const published = { ...jwk, kid, alg: algorithm, use: 'sig' }
  return { algorithm, kid, privateKey, published, signsFromMs: block.signsFromMs }
}

function readPrivateKey({ pem }: KeyBlock, place: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    // OpenSSL's own words may quote the input.
    throw new Error(`${place} is no private key in PEM (PKCS #8)`)
  }
}

/** What a key can sign with; undefined for kinds that we do not sign with. */
export function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): SigningAlgorithm | undefined {
  if (asymmetricKeyType === 'ed25519') return 'EdDSA'
  return asymmetricKeyType === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1' ? 'ES256' : undefined
}
