import { Pool } from 'undici'
import { findPercentile, welch } from '../statistics.ts'
import { guardedPath, type ObjectsFixture, warmUpPairs } from './fixture.ts'

export type Pairs = Readonly<{
  name: string
  count: number
  foreignMicros: number
  absentMicros: number
  t: number
  /** Welch's t of the values below the ninth decile of both, since pauses of the machine hide a small difference. */
  fastT: number
}>

type Terms = Readonly<{ name: string; isRepeated: boolean; signal: AbortSignal }>

/** Each value is one request on one connection; of each pair a coin decides which goes first. */
export async function measurePairs(fixture: ObjectsFixture, { name, isRepeated, signal }: Terms): Promise<Pairs> {
  const { gateway, headers, foreignIds, absentIds } = fixture
  const pool = new Pool(gateway.public, { connections: 1 })
  const time = async (id: number): Promise<number> => {
    const beganMs = performance.now()
    const { statusCode, body } = await pool.request({ method: 'GET', path: guardedPath(id), headers: { ...headers } })
    await body.dump()
    const micros = (performance.now() - beganMs) * 1_000
    if (statusCode !== 404) throw new Error(`the object ${id} is ${statusCode}`)
    return micros
  }
  const foreign: number[] = []
  const absent: number[] = []
  try {
    for (const [index, foreignId] of foreignIds.entries()) {
      signal.throwIfAborted()
      const absentId = absentIds[index] ?? 0
      if (isRepeated) await Promise.all([time(foreignId), time(absentId)])
      const isForeignFirst = Math.random() < 0.5
      const first = await time(isForeignFirst ? foreignId : absentId)
      const second = await time(isForeignFirst ? absentId : foreignId)
      if (index < warmUpPairs) continue
      foreign.push(isForeignFirst ? first : second)
      absent.push(isForeignFirst ? second : first)
    }
  } finally {
    await pool.destroy()
  }
  const cut = findPercentile([...foreign, ...absent], 0.9)
  const isFast = (micros: number): boolean => micros <= cut
  return {
    name,
    count: foreign.length,
    foreignMicros: findPercentile(foreign, 0.5),
    absentMicros: findPercentile(absent, 0.5),
    t: welch(foreign, absent),
    fastT: welch(foreign.filter(isFast), absent.filter(isFast)),
  }
}
