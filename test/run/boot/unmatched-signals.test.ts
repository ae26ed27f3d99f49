import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Configuration } from '../../../gateway/configuration/configuration.ts'
import { watchUnmatchedSignals } from '../../../gateway/run/boot/unmatched-signals.ts'
import { until } from '../../support/gateway.ts'

const [issuer, mapping] = ['https://plain.example', 'https://mapping.example']

function watch(findByIdentity: () => Promise<undefined>) {
  const issuers = [
    { issuer, logout: {}, claims: { subject: '/sub' } },
    { issuer: mapping, logout: {}, claims: { subject: '/oid' } },
  ]
  const configuration = { issuers, transmitters: [] } as unknown as Configuration // the parts that are read
  const state = { lines: [] as unknown[], counted: [] as string[], nowMs: 0 }
  const watched = watchUnmatchedSignals(configuration, {
    log: { warn: (facts: unknown, message: string) => void state.lines.push([facts, message]) } as never,
    metrics: {
      expectUnmatched: () => undefined,
      countUnmatched: (name: string, cause: string) => void state.counted.push(`${name} ${cause}`),
    } as never,
    monotonicMs: () => state.nowMs,
    findByIdentity,
    delayMs: 0,
  })
  const look = async (subject: string, at = issuer): Promise<void> => {
    watched.look([{ issuer: at, subject, session: '', at: 0, expiresAt: 1 }], { requestId: subject })
    await sleep(5)
  }
  return { state, look }
}

t.test(
  'an end without an identity is warned of once a minute for each issuer, and never where it is not known',
  async (t) => {
    const { state, look } = watch(async () => undefined)
    for (const subject of ['a', 'b']) await look(subject)
    const line = (requestId: string) => [{ issuer, requestId }, 'logout matches no identity and no JWT']
    t.same(state.lines, [line('a')])
    state.nowMs = 60_000
    await look('c', mapping)
    await look('d')
    t.same(state.lines, [line('a'), line('d')])
    const none = `${issuer} no_identity`
    t.same(state.counted, [none, none, `${mapping} not_known`, none])
    await look('an-address', `${issuer}#email`)
    t.equal(state.counted.at(-1), `${issuer} not_known`)
  },
)

t.test('an end is not known while the directory fails, or beyond the lookups that it may cause', async (t) => {
  const failing = watch(() => Promise.reject(new Error('down')))
  await failing.look('a')
  t.same([failing.state.lines, failing.state.counted], [[], [`${issuer} not_known`]])
  let asked = 0
  const stuck = watch(() => {
    asked += 1
    return new Promise(() => undefined)
  })
  for (let index = 0; index < 150; index++) await stuck.look(`${index}`)
  await until(() => asked === 200, 'two names of each')
  t.equal(stuck.state.counted.length, 50)
})
