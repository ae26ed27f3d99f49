import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import type { Test } from 'tap'

/** Identity headers as signed for `platform`, one for each lifetime in seconds, and the address of their key. */
export async function signIdentities(t: Test, lives: readonly number[]) {
  const { publicKey, privateKey } = await generateKeyPair('EdDSA', { extractable: true })
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'EdDSA', use: 'sig' }]
  const server = createServer((_, response) =>
    response.setHeader('content-type', 'application/json').end(JSON.stringify({ keys })),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const now = Math.floor(Date.now() / 1_000)
  const sign = (seconds: number): Promise<string> =>
    new SignJWT({ iss: 'sallyport', aud: 'platform', sub: '3', user: { id: 3 } })
      .setProtectedHeader({ alg: 'EdDSA', kid: 'one', typ: 'JWT' })
      .setIssuedAt(now)
      .setExpirationTime(now + seconds)
      .sign(privateKey)
  return { jwksUrl: `http://127.0.0.1:${port}/`, headers: await Promise.all(lives.map(sign)) }
}
