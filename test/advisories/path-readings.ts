import { GatewayError } from '../../gateway/base/errors/gateway-error.ts'
import type { RequestTarget } from '../../gateway/stages/receive/target.ts'

/**
 * The readings of a path by the rule alone: every change is applied to every reading, whatever it costs. The gateway's
 * own must find the same.
 */
export function slowReadings({ path, segments }: Pick<RequestTarget, 'path' | 'segments'>): ReadonlySet<string> {
  const readings = new Set([path.slice(1).replaceAll('/', '\0')])
  for (const reading of readings) {
    if (/(?:^|\0)\.\.?(?:\0|$)/.test(reading)) throw new GatewayError('target_like_dot_segment')
    if (readings.size > 256) throw new GatewayError('target_with_many_readings')
    for (const change of changes) readings.add(change(reading))
  }
  readings.delete(segments.join('\0'))
  return readings
}

const changes: readonly ((reading: string) => string)[] = [
  decodeRuns,
  (reading) => reading.replaceAll('/', '\0').replaceAll('\\', '\0'),
  (reading) => reading.toUpperCase().toLowerCase(),
  foldCompatible,
  (reading) => reading.replace(/;[^\0]*/g, ''),
  (reading) => reading.replace(/[?#].*$/s, ''),
  (reading) => reading.replace(/(?:^|(?<=\0))\s+|(?<!\s)\s+(?=\0|$)/g, ''),
  (reading) => reading.replace(/(?<!\.)\.+(?=\0|$)/g, ''),
  (reading) => reading.replace(/^\0+|(?<=\0)\0+/g, ''),
  (reading) => reading.replace(/\0$/, ''),
]

function foldCompatible(reading: string): string {
  if (/\p{M}{31}/u.test(reading)) throw new GatewayError('target_with_many_readings')
  return reading.normalize('NFKC')
}

function decodeRuns(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    try {
      return decodeURIComponent(run)
    } catch (error) {
      throw new GatewayError('target_bad_utf8', { cause: error })
    }
  })
}
