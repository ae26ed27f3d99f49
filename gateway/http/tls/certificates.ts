import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import type { ClientCertificate } from '../exchange.ts'

const block = /-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END (?:TRUSTED |X509 )?CERTIFICATE-----/g

/**
 * Reads the certificates of a PEM text. Throws a sentence that quotes nothing. Malformed ones fail here, since OpenSSL
 * skips them.
 */
export function readCertificates(what: string, pem: string): readonly X509Certificate[] {
  const blocks = pem.match(block) ?? []
  if (blocks.length === 0) throw new Error(`${what} holds no certificate in PEM; name a file that begins with one`)
  return blocks.map((text, index) => {
    try {
      return new X509Certificate(text)
    } catch {
      throw new Error(`${what} holds something else than a certificate in its block ${index + 1}`)
    }
  })
}

export function checkPair(cert: string, key: string): void {
  const [own] = readCertificates('cert', cert)
  if (own?.checkPrivateKey(readKey(key)) !== true)
    throw new Error('cert and key do not belong together; name the key of the first certificate')
}

function readKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    // OpenSSL's message may quote the input.
    throw new Error('key holds no private key in PEM, or one under a passphrase; name a key without a passphrase')
  }
}

export const readExpiry = (cert: string): Date => new Date(readCertificates('cert', cert)[0]?.validTo ?? '')

type Described = Pick<X509Certificate, 'subjectAltName' | 'validTo'>

export const describeCertificate = ({ subjectAltName, validTo }: Described): ClientCertificate => ({
  names: readAlternativeNames(subjectAltName),
  endsAt: new Date(validTo),
})

/** Node escapes a comma within a name, so no part of one passes for another name (CVE-2021-44532). */
export const readAlternativeNames = (text = ''): readonly string[] => (text === '' ? [] : text.split(', '))
