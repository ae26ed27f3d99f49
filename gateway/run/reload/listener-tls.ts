import type { Configuration, ListenerTlsSettings } from '../../configuration/configuration.ts'
import type { Listener, ListenerOptions } from '../../http/engine.ts'
import { readExpiry } from '../../http/tls/certificates.ts'
import { checkServerIdentity, type ServerIdentity } from '../../http/tls/server.ts'
import { describeBug, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { ConfigurationError, type Problem } from '../../policy/configuration-error.ts'
import { createPemsWatch, type FilesWatcher, follow, type Pems, type Texts, textsOf } from './pem-files.ts'

type Name = 'cert' | 'key' | 'clientCa'

const listenerNames = ['public', 'decision', 'signals'] as const

export function checkListenerTls({ listeners, problemAt }: Configuration): void {
  const problems = listenerNames.flatMap((name): readonly Problem[] => {
    const tls = listeners[name]?.tls
    if (!tls) return []
    try {
      checkServerIdentity(readIdentity(textsOf(pemsOf(tls))))
      return []
    } catch (error) {
      return [problemAt(['listeners', name, 'tls'], `listeners.${name}.tls: ${(error as Error).message}`)]
    }
  })
  const { evaluators, tls } = listeners.decision
  if (evaluators && !tls?.clientCa)
    problems.push(
      problemAt(
        ['listeners', 'decision', 'evaluators'],
        'listeners.decision.evaluators needs tls.clientCa, which verifies their certificates. Set it.',
      ),
    )
  if (problems.length > 0) throw new ConfigurationError(problems)
}

export function readListenerTls(
  tls: ListenerTlsSettings | undefined,
  handshakeTimeoutMs: number,
): ListenerOptions['tls'] {
  if (!tls) return undefined
  return {
    identity: readIdentity(textsOf(pemsOf(tls))),
    clientCertificates: tls.clientCa && (tls.clientCertificates ?? 'required'),
    minVersion: tls.minVersion,
    handshakeTimeoutMs,
  }
}

export function watchListenerTls(
  { listeners }: Configuration,
  opened: Readonly<Partial<Record<(typeof listenerNames)[number], Listener>>>,
  { log, metrics }: Readonly<{ log: Log; metrics: Metrics }>,
): FilesWatcher {
  const looks = listenerNames.flatMap((name) => {
    const tls = listeners[name]?.tls
    if (!tls) return []
    const noteExpiry = (cert: string): void => metrics.noteCertificate(name, readExpiry(cert))
    noteExpiry(tls.cert.text)
    metrics.noteTlsReload(name, true)
    const apply = (texts: Texts<Name>): void => {
      const identity = readIdentity(texts)
      opened[name]?.replaceIdentity(identity)
      noteExpiry(identity.cert)
    }
    const noteOutcome = (isGood: boolean): void => metrics.noteTlsReload(name, isGood)
    return [createPemsWatch({ owner: { listener: name }, pems: pemsOf(tls), apply, noteOutcome, log })]
  })
  return follow(looks, (error) => {
    log.error({ error: describeBug(error) }, 'listener certificate check failed')
  })
}

const pemsOf = ({ cert, key, clientCa }: ListenerTlsSettings): Pems<Name> => ({
  cert,
  key,
  ...(clientCa && { clientCa }),
})

const readIdentity = ({ cert = '', key = '', clientCa }: Texts<Name>): ServerIdentity => ({ cert, key, clientCa })
