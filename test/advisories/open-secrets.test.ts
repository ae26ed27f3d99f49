import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { generatePem } from '../../gateway/tools/cli/keys.ts'
import { createAuthority, ownNames, testCertificates } from '../support/certificates.ts'
import { until } from '../support/gateway.ts'
import { type Serving, startServing } from '../support/serve.ts'

/** Files of a signing key, a connection string and a TLS key with this mode, and a certificate that anyone may read. */
function writeSecrets(t: Test, mode: number) {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-secrets-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const write = (name: string, text: string, mode: number): string => {
    const file = join(folder, name)
    writeFileSync(file, text)
    chmodSync(file, mode)
    return file
  }
  const { cert, key } = createAuthority(t).issue(ownNames)
  const files = {
    identity: write('identity.pem', generatePem('EdDSA'), mode),
    database: write('database', 'postgres://nobody:secret@127.0.0.1:1/nowhere\n', mode),
    key: write('tls.key', key, mode),
    cert: write('tls.crt', cert, 0o644),
  }
  const settings = {
    identity: { keys: [`file:${files.identity}`] },
    database: { url: `file:${files.database}` },
    listeners: {
      public: { host: '127.0.0.1', port: 0, tls: { cert: `file:${files.cert}`, key: `file:${files.key}` } },
      decision: { host: '127.0.0.1', port: 0 },
      admin: { host: '127.0.0.1', port: 0 },
    },
  }
  return { files, settings }
}

const warningsOf = (serving: Serving) =>
  serving
    .log()
    .flatMap(({ level, msg, file, mode }) => (msg === 'secret file readable by others' ? [{ level, file, mode }] : []))

for (const workers of [1, 2])
  testCertificates(
    t,
    `the log warns once of each secret file that others may read, with ${workers} worker(s)`,
    async (t) => {
      const { files, settings } = writeSecrets(t, 0o644)
      const serving = await startServing(t, { settings: { ...settings, workers } })
      const expected = [files.identity, files.database, files.key].map((file) => ({
        level: 'warn',
        file,
        mode: '0644',
      }))
      await until(() => serving.log().some(({ msg }) => msg === 'listening'), 'the start')
      t.same(new Set(warningsOf(serving)), new Set(expected))
      t.equal(warningsOf(serving).length, 3, 'the certificate is public')
      t.notMatch(serving.stdout(), /PRIVATE|secret@/)
    },
  )

testCertificates(
  t,
  'the log warns of a file that others may read since a reload or since it was replaced, and not before',
  async (t) => {
    const { files, settings } = writeSecrets(t, 0o600)
    const serving = await startServing(t, { settings })
    await until(() => serving.log().some(({ msg }) => msg === 'listening'), 'the start')
    t.same(warningsOf(serving), [])
    chmodSync(files.key, 0o640)
    process.kill(serving.pid, 'SIGHUP')
    await until(() => warningsOf(serving).length > 0, 'the warning')
    const ofReload = { level: 'warn', file: files.key, mode: '0640' }
    t.same(warningsOf(serving), [ofReload])
    writeFileSync(files.identity, generatePem('EdDSA'))
    chmodSync(files.identity, 0o604)
    await until(() => warningsOf(serving).length > 1, 'the warning of the key file that is replaced')
    t.same(warningsOf(serving), [ofReload, { level: 'warn', file: files.identity, mode: '0604' }])
  },
)
