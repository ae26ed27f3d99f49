import { createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { calculateJwkThumbprint, exportJWK, type JWK } from 'jose'

export type SigningAlgorithm = 'EdDSA' | 'ES256'

/** The keys of the identity header: one signs, all are published, so that keys can change without a gap. */
export type SigningKeys = Readonly<{
  algorithm: SigningAlgorithm
  kid: string
  privateKey: KeyObject
  published: Readonly<{ keys: readonly JWK[] }>
}>

/** Reads private keys in PEM (PKCS #8); the first signs. Throws a sentence that never quotes the key. */
export async function readSigningKeys(pems: readonly string[], algorithm: SigningAlgorithm): Promise<SigningKeys> {
  const keys = pems.map((pem, index) => readPrivateKey(pem, index, algorithm))
  const [privateKey] = keys
  if (!privateKey) throw new Error('needs at least one key')
  const published = await Promise.all(keys.map((key) => publish(key, algorithm)))
  const kid = published[0]?.kid
  if (kid === undefined) throw new Error('needs at least one key')
  return { algorithm, kid, privateKey, published: { keys: published } }
}

function readPrivateKey(pem: string, index: number, algorithm: SigningAlgorithm): KeyObject {
  let key: KeyObject
  try {
    key = createPrivateKey(pem)
  } catch {
    // OpenSSL's own words may quote the input.
    throw new Error(`key ${index + 1} is no private key in PEM (PKCS #8)`)
  }
  const isFit =
    algorithm === 'EdDSA'
      ? key.asymmetricKeyType === 'ed25519'
      : key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1'
  if (!isFit) throw new Error(`key ${index + 1} does not fit ${algorithm}`)
  return key
}

/** The key id is the key's own thumbprint (RFC 7638): it cannot be given to another key by mistake. */
async function publish(privateKey: KeyObject, algorithm: SigningAlgorithm): Promise<JWK> {
  const jwk = await exportJWK(createPublicKey(privateKey))
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: algorithm, use: 'sig' }
}
