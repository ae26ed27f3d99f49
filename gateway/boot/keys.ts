import { readSigningKeys, type SigningKeys } from '../pin/signing-keys.ts'
import { ConfigurationError } from '../policy/configuration-error.ts'
import type { Configuration } from './configuration.ts'

/** The keys of the identity header, or a problem that says what to do about them. */
export async function readKeys({ identity }: Configuration, file: string): Promise<SigningKeys> {
  try {
    return await readSigningKeys(identity.keys, identity.algorithm)
  } catch (error) {
    const advice = 'make one with "sallyport keys generate"'
    const message = `identity.keys: ${(error as Error).message}; ${advice}`
    throw new ConfigurationError([{ file, line: 1, column: 1, message }])
  }
}
