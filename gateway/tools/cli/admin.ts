import type { Configuration } from '../../configuration/configuration.ts'
import { UsageError } from '../../configuration/failure.ts'
import { toOrigin } from './healthcheck.ts'

export function findAdmin(configuration: Configuration | undefined): string | undefined {
  const admin = configuration?.listeners.admin
  return admin === undefined || admin.port === 0 ? undefined : toOrigin(admin)
}

export function readAdmin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url.origin
  throw new UsageError('--admin takes the address of the admin listener, such as http://127.0.0.1:9090')
}

/** The primary waits up to 2 s for its workers; the rest is for the network. */
const patienceMs = 5_000

export async function askAdmin(
  origin: string,
  path: string,
  limitBytes: number,
): Promise<Readonly<{ status: number; text: string }>> {
  const signal = AbortSignal.timeout(patienceMs)
  const { status, body } = await fetch(origin + path, { redirect: 'error', signal })
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of body ?? []) {
    bytes += chunk.length
    if (bytes > limitBytes) throw new Error(`the answer is longer than ${limitBytes} bytes`)
    chunks.push(chunk)
  }
  return { status, text: Buffer.concat(chunks).toString('utf8') }
}

export const nameFetchFailure = (error: unknown): string => {
  const { message, cause } = error as Error
  return (cause as NodeJS.ErrnoException | undefined)?.code ?? message
}
