import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, type JWK } from 'jose'
import { type KeyBlock, readKeyBundle } from './key-bundle.ts'

export type SigningAlgorithm = 'EdDSA' | 'ES256'

export type SigningKey = Readonly<{
  algorithm: SigningAlgorithm
  kid: string
  privateKey: KeyObject
  published: JWK
  signsFromMs: number
}>

export async function readSigningKeys(text: string, algorithm: SigningAlgorithm): Promise<readonly SigningKey[]> {
  const blocks = readKeyBundle(text)
  return Promise.all(blocks.map((block, index) => readSigningKey(block, `block ${index + 1}`, algorithm)))
}

async function readSigningKey(block: KeyBlock, place: string, algorithm: SigningAlgorithm): Promise<SigningKey> {
  const privateKey = readPrivateKey(block, place)
  if (algorithmOf(privateKey) !== algorithm) throw new Error(`${place} does not fit ${algorithm}`)
  const jwk = await exportJWK(createPublicKey(privateKey))
  // The key's own thumbprint as its id (RFC 7638), so that two keys cannot share an id by mistake.
  const kid = await calculateJwkThumbprint(jwk)
  const published = { ...jwk, kid, alg: algorithm, use: 'sig' }
  return { algorithm, kid, privateKey, published, signsFromMs: block.signsFromMs }
}

function readPrivateKey({ pem }: KeyBlock, place: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    // OpenSSL's message may quote the input, so it is not the cause here.
    throw new Error(`${place} is not a private key in PEM (PKCS #8)`)
  }
}

export function algorithmOf({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject): SigningAlgorithm | undefined {
  if (asymmetricKeyType === 'ed25519') return 'EdDSA'
  return asymmetricKeyType === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1' ? 'ES256' : undefined
}
