import type { Configuration, DoorTls } from '../configuration/configuration.ts'
import type { Listener, ListenerOptions } from '../http/engine.ts'
import { readExpiry } from '../http/tls/certificates.ts'
import { checkServerIdentity, type ServerIdentity } from '../http/tls/server.ts'
import { describeBug, type Log } from '../observe/log/log.ts'
import type { Metrics } from '../observe/metrics/metrics.ts'
import { ConfigurationError, type Problem } from '../policy/configuration-error.ts'
import { createPemsWatch, type Follower, follow, type Pems, type Texts, textsOf } from './pem-files.ts'

type Name = 'cert' | 'key' | 'clientCa'

const doors = ['public', 'decision'] as const

/** Finds certificates and keys that no listener could serve with. Throws `ConfigurationError`. */
export function checkDoors({ listeners }: Configuration, file: string): void {
  const problems = doors.flatMap((door): readonly Problem[] => {
    const { tls } = listeners[door]
    if (!tls) return []
    try {
      checkServerIdentity(readIdentity(textsOf(pemsOf(tls))))
      return []
    } catch (error) {
      const message = `listeners.${door}.tls: ${(error as Error).message}`
      return [{ file, line: 1, column: 1, message }]
    }
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

/** What the engine is told of a listener's TLS. */
export function readDoorTls(tls: DoorTls | undefined, handshakeTimeoutMs: number): ListenerOptions['tls'] {
  if (!tls) return undefined
  return {
    identity: readIdentity(textsOf(pemsOf(tls))),
    clientCertificates: tls.clientCa && (tls.clientCertificates ?? 'required'),
    minVersion: tls.minVersion,
    handshakeTimeoutMs,
  }
}

/** Has listeners present what their files hold, from now on. */
export function followDoors(
  { listeners }: Configuration,
  opened: Readonly<Record<(typeof doors)[number], Listener>>,
  { log, metrics }: Readonly<{ log: Log; metrics: Metrics }>,
): Follower {
  const looks = doors.flatMap((door) => {
    const { tls } = listeners[door]
    if (!tls) return []
    const noteExpiry = (cert: string): void => metrics.noteCertificate(door, readExpiry(cert))
    noteExpiry(tls.cert.text)
    metrics.noteTlsReload(door, true)
    const adopt = (texts: Texts<Name>): void => {
      const identity = readIdentity(texts)
      opened[door].replaceIdentity(identity)
      noteExpiry(identity.cert)
    }
    const noteOutcome = (isGood: boolean): void => metrics.noteTlsReload(door, isGood)
    return [createPemsWatch({ owner: { listener: door }, pems: pemsOf(tls), adopt, noteOutcome, log })]
  })
  return follow(looks, (error) => {
    log.error({ error: describeBug(error) }, 'the certificates of listeners could not be looked after')
  })
}

const pemsOf = ({ cert, key, clientCa }: DoorTls): Pems<Name> => ({ cert, key, ...(clientCa && { clientCa }) })

/** The schema demands the first two. */
const readIdentity = ({ cert = '', key = '', clientCa }: Texts<Name>): ServerIdentity => ({ cert, key, clientCa })
