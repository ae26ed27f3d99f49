import { constants } from 'node:crypto'
import type { Server as PlainServer } from 'node:net'
import { createSecureContext, type SecureContextOptions, Server, type TlsOptions } from 'node:tls'
import { checkPair, readCertificates } from './certificates.ts'

export type ServerIdentity = Readonly<{ cert: string; key: string; clientCa?: string | undefined }>

export type ListenerTls = Readonly<{
  identity: ServerIdentity
  /**
   * Only with a `clientCa`: whether a client without a certificate may connect. A certificate that does not verify is
   * always refused.
   */
  clientCertificates?: 'optional' | 'required' | undefined
  minVersion: 'TLSv1.2' | 'TLSv1.3'
  handshakeTimeoutMs: number
}>

/** TLS 1.2 with forward secrecy and authenticated encryption (Mozilla's "intermediate"). TLS 1.3 has nothing else. */
const ciphers = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

/**
 * The replaceable part of the server's options. A new context has new session ticket keys: sessions of the old one,
 * with their client certificates, are not resumed.
 */
export function composeContext({ cert, key, clientCa }: ServerIdentity, { minVersion }: ListenerTls) {
  return {
    cert,
    key,
    ...(clientCa !== undefined && { ca: clientCa }),
    minVersion,
    ciphers,
    honorCipherOrder: true,
    // Renegotiation would let one client demand the costly part of a handshake again and again.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  } satisfies SecureContextOptions
}

export const composeServerOptions = (tls: ListenerTls): TlsOptions => ({
  ...composeContext(tls.identity, tls),
  ALPNProtocols: ['http/1.1'],
  handshakeTimeout: tls.handshakeTimeoutMs,
  requestCert: tls.clientCertificates !== undefined,
  rejectUnauthorized: tls.clientCertificates === 'required',
})

export function checkServerIdentity(identity: ServerIdentity): void {
  checkPair(identity.cert, identity.key)
  if (identity.clientCa !== undefined) readCertificates('clientCa', identity.clientCa)
  try {
    createSecureContext({ ...identity, ciphers })
  } catch (error) {
    throw new Error(`cert or key cannot serve (${(error as NodeJS.ErrnoException).code ?? 'unknown reason'})`)
  }
}

export const replaceIdentity =
  (server: PlainServer, tls: ListenerTls | undefined) =>
  (identity: ServerIdentity): void => {
    if (!tls || !(server instanceof Server)) throw new Error('a listener without TLS presents nothing')
    checkServerIdentity(identity)
    server.setSecureContext(composeContext(identity, tls))
  }
