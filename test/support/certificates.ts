import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { testUnlessLacking } from './lacks.ts'
import type { Owner } from './owner.ts'

/** A certificate and its private key, as files and as what they hold. */
export type Issued = Readonly<{ certFile: string; keyFile: string; cert: string; key: string }>

/** A certificate authority. */
export type Authority = Issued &
  Readonly<{
    /** For these names and addresses (`DNS:…`, `IP:…`), valid for so many days from now: negative ones have passed. */
    issue: (names: readonly string[], days?: number, commonName?: string) => Issued
  }>

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Makes an authority of its own; its files go with the owner. */
export function createAuthority(owner: Owner): Authority {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-tls-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const openssl = (...args: readonly string[]): unknown =>
    execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  const read = (name: string): Issued => {
    const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)]
    return { certFile, keyFile, cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
  }
  const subject = `/CN=authority ${folder.slice(-6)}`
  openssl('req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2', '-subj', subject)
  let count = 0
  return {
    ...read('ca'),
    issue: (names, days = 2, commonName = `issued${count + 1}`) => {
      const name = `issued${++count}`
      writeFileSync(join(folder, 'names'), `subjectAltName=${names.join(',')}`)
      openssl('req', '-new', ...newKey, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${commonName}`)
      const signer = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-set_serial', String(1_000 + count)]
      const terms = ['-days', String(days), '-extfile', 'names']
      openssl('x509', '-req', '-in', `${name}.csr`, ...signer, ...terms, '-out', `${name}.pem`)
      return read(name)
    },
  }
}

/** The names of every server of a test. */
export const ownNames = ['DNS:localhost', 'IP:127.0.0.1']

const opensslLack = spawnSync('openssl', ['version']).status === 0 ? undefined : 'there is no openssl'

/** A block of tests that makes certificates. Without openssl it is skipped; `REQUIRE_ALL=1` forbids it. */
export const testCertificates = (t: Test, name: string, run: (t: Test) => Promise<unknown>): void =>
  testUnlessLacking(t, name, run, opensslLack)
