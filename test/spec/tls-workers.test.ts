import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { connect } from 'node:tls'
import t from 'tap'
import { createAuthority, ownNames, testCertificates } from '../support/certificates.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { callSecurely, toSecure } from '../support/secure-client.ts'
import { busyWorkers, pidOf, readMetric, startGroup } from '../support/workers.ts'

/** The serial number of the certificate that a listener presents. */
const readSerial = (origin: string, ca: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin)
    const socket = connect({ host: hostname, port: Number(port), ca }, () => {
      resolve(socket.getPeerX509Certificate()?.serialNumber ?? '')
      socket.destroy()
    })
    socket.on('error', reject)
  })

testCertificates(t, 'every worker presents a listener’s certificate, and its successor after SIGHUP', async (t) => {
  const authority = createAuthority(t)
  const [first, second] = [authority.issue(ownNames), authority.issue(ownNames)]
  const folder = t.testdir({ 'tls.crt': first.cert, 'tls.key': first.key })
  const upstream = await startHttpUpstream(t)
  const place = { host: '127.0.0.1', port: 0 }
  const tls = { cert: `file:${folder}/tls.crt`, key: `file:${folder}/tls.key` }
  const serving = await startGroup(t, {
    upstream: upstream.url,
    settings: { listeners: { public: { ...place, tls }, decision: { ...place, tls }, admin: place } },
  })
  const ca = authority.cert
  const url = toSecure(serving.public)
  await until(async () => {
    t.equal((await callSecurely(url, '/status', { ca })).status, 200)
    return busyWorkers(serving).size === 2
  }, 'an answer of each worker')
  t.equal((await callSecurely(toSecure(serving.decision), '/authorize', { ca })).status, 400, 'it asks for a target')

  if (process.platform === 'linux')
    for (const worker of [1, 2]) {
      const told = readFileSync(`/proc/${pidOf(serving, worker)}/environ`, 'utf8')
      t.match(told, /SALLYPORT_ASSIGNMENT/)
      t.notMatch(told, /PRIVATE KEY/, 'a key is no part of what a process’ environment tells')
    }

  const before = await readSerial(url, ca)
  for (const [name, text] of [
    ['tls.crt', second.cert],
    ['tls.key', second.key],
  ] as const) {
    writeFileSync(`${folder}/.${name}`, text)
    renameSync(`${folder}/.${name}`, `${folder}/${name}`)
  }
  process.kill(serving.pid, 'SIGHUP')
  await until(
    () => serving.log().filter(({ msg }) => msg === 'certificates reloaded').length === 4,
    'both listeners of both workers',
    15_000,
  )
  for (let count = 0; count < 10; count++) t.not(await readSerial(url, ca), before)
  t.same(await readMetric(serving, 'sallyport_tls_reload_success'), {
    'listener="public"': 1,
    'listener="decision"': 1,
  })

  writeFileSync(`${folder}/tls.key`, first.key)
  await until(
    async () => (await readMetric(serving, 'sallyport_tls_reload_success'))['listener="public"'] === 0,
    'the metric',
    15_000,
  )
  const complaints = () => serving.log().filter(({ msg }) => /certificate reload failed/.test(msg))
  // A worker's log line and its metric arrive independently.
  await until(() => complaints().length > 0, 'the complaint')
  t.match(complaints()[0], {
    level: 'error',
    listener: /public|decision/,
    error: { message: /do not belong together/ },
  })
  t.equal((await callSecurely(url, '/status', { ca })).status, 200)
})
