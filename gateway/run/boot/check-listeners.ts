import type { Configuration } from '../../configuration/configuration.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import { readAddress } from '../../stages/receive/client.ts'

type Checked = Pick<Configuration, 'listeners' | 'problemAt'>

const names = ['public', 'decision', 'admin', 'signals'] as const

/**
 * Two listeners on one address. The second could not start, or with workers take the requests of the first: both are
 * found before anything is opened.
 */
export function checkListeners({ listeners, problemAt }: Checked): void {
  const bound = names.flatMap((name) => {
    const settings = listeners[name]
    // The system chooses a free port for 0.
    return settings && settings.port !== 0 ? [{ name, port: settings.port, host: plainHost(settings.host) }] : []
  })
  const problems = bound.flatMap(({ name, port, host }, index) => {
    const other = bound.slice(0, index).find((earlier) => earlier.port === port && overlaps(earlier.host, host))
    if (!other) return []
    const message = `listeners.${name}.port: ${port} is the port of listeners.${other.name} on the same address; set another`
    return [problemAt(['listeners', name, 'port'], message)]
  })
  if (problems.length > 0) throw new ConfigurationError(problems)
}

/** Permits none: without `cors` no origin is allowed. */
export const findIdlePreflights = ({
  listeners,
  cors,
}: Pick<Configuration, 'listeners' | 'cors'>): readonly string[] =>
  listeners.decision.preflights === 'permit' && !cors
    ? [
        'listeners.decision.preflights: permit permits none without cors. Name the origins in cors.origins, or leave it out.',
      ]
    : []

const loopback = ['127.0.0.1', '::1']

function overlaps(left: string, right: string): boolean {
  if (left === right || left === anyHost || right === anyHost) return true
  // The machine decides which of them the name is.
  return (left === 'localhost' && loopback.includes(right)) || (right === 'localhost' && loopback.includes(left))
}

/** Node binds `::` to IPv4 too, so either wildcard takes each address. */
const anyHost = '*'

/** One spelling for each address. The machine also takes short and hexadecimal ones, such as `127.1` and `0`. */
function plainHost(host: string): string {
  const written = host.toLowerCase().replace(/\.$/, '')
  const name =
    /^[\da-fx.]+$/.test(written) && URL.canParse(`http://${written}`) ? new URL(`http://${written}`).hostname : written
  const plain = readAddress(name) ?? name
  return plain === '0.0.0.0' || plain === '::' ? anyHost : plain
}
