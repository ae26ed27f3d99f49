import { EndOfTickBatch } from '../lib/end-of-tick-batch.ts'
import { type ChosenKey, type UnverifiedToken, verifySignature } from './signature.ts'

type Check = Readonly<{
  token: UnverifiedToken
  key: ChosenKey
  held: () => void
  failed: (error: unknown) => void
}>

const checks = new EndOfTickBatch<Check>(({ token, key, held, failed }) => {
  try {
    verifySignature(token, key)
    held()
  } catch (error) {
    failed(error)
  }
})

/**
 * Rejects unless the signature is that of the key chosen for the very same header. With those of other tokens: OpenSSL
 * looks so much up on its way that what stands between two checks takes longer, and each check as well.
 */
export const verifyTogether = (token: UnverifiedToken, key: ChosenKey): Promise<void> =>
  new Promise((held, failed) => checks.add({ token, key, held, failed }))
