import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { request as httpsRequest } from 'node:https'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import type { Test } from 'tap'
import { type RawClient, watchClient } from './gateway.ts'

/** The same origin with the scheme `https`. */
export const toSecure = (origin: string): string => origin.replace(/^http:/, 'https:')

export type SecureClient = RawClient & Readonly<{ secure: TLSSocket }>

/** Opens a TLS connection that ends with the test. Rejects if the handshake fails. */
export async function openSecureClient(t: Test, origin: string, options: ConnectionOptions): Promise<SecureClient> {
  const { hostname, port } = new URL(origin)
  const secure = connect({ host: hostname, port: Number(port), ...options })
  t.teardown(() => secure.destroy())
  const client = watchClient(secure)
  await Promise.race([
    once(secure, 'secureConnect'),
    once(secure, 'close').then(() => Promise.reject(new Error('closed'))),
  ])
  return { ...client, secure }
}

export type SecureAnswer = Readonly<{ status: number; body: Buffer }>

/** One request on a connection of its own. */
export function callSecurely(
  origin: string,
  path: string,
  options: ConnectionOptions,
  how: Readonly<{ method?: string; headers?: Readonly<Record<string, string>>; body?: Buffer }> = {},
): Promise<SecureAnswer> {
  const { hostname, port } = new URL(origin)
  const { method = 'GET', headers = {}, body } = how
  return new Promise((resolve, reject) => {
    const request = httpsRequest(
      { host: hostname, port, path, method, headers, agent: false, ...options },
      (response) => {
        const chunks: Buffer[] = []
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) }))
      },
    )
    request.on('error', reject)
    request.end(body)
  })
}

/** Runs curl, since its TLS library is not Node's. `status` is 0 without a response. */
export async function curl(
  url: string,
  ...args: readonly string[]
): Promise<Readonly<{ code: number | null; status: number; version: string; text: string }>> {
  const marks = ['-w', '\\n%{http_code} %{http_version}']
  const child = spawn('curl', ['-sS', '--max-time', '20', ...marks, ...args, url], {
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => {
    output += chunk.toString()
  })
  const [code] = await once(child, 'close')
  const end = output.lastIndexOf('\n')
  const [status, version = ''] = output.slice(end + 1).split(' ')
  return { code, status: Number(status), version, text: output.slice(0, end) }
}
