import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { UsageError } from '../../configuration/failure.ts'
import { readSigningKeys } from '../../stages/pin/signing-keys.ts'

export async function generateKey(
  options: Readonly<{ out: string; algorithm: string; json?: boolean }>,
): Promise<void> {
  const { out, algorithm } = options
  if (algorithm !== 'EdDSA' && algorithm !== 'ES256')
    throw new UsageError(`unknown algorithm "${algorithm}". Use EdDSA or ES256.`)
  const pem = generatePem(algorithm)
  const [key] = await readSigningKeys(pem, algorithm)
  mkdirSync(dirname(out), { recursive: true, mode: 0o700 })
  try {
    writeFileSync(out, pem, { mode: 0o600, flag: 'wx' })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new UsageError(`${out} exists. Choose another file with --out, or move the old key away first.`)
  }
  if (options.json) process.stdout.write(`${JSON.stringify({ file: out, kid: key?.kid, algorithm })}\n`)
  else process.stdout.write(`wrote ${out} (kid ${key?.kid})\n${tellNext(out)}\n`)
}

const shippedKeyFile = '.sallyport/identity.pem'

function tellNext(file: string): string {
  const advice = `list it first under identity.keys, as file:${resolve(file)}`
  return file === shippedKeyFile ? `the shipped configuration lists it; in another one ${advice}` : advice
}

export function generatePem(algorithm: 'EdDSA' | 'ES256'): string {
  const { privateKey } =
    algorithm === 'EdDSA' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
}
