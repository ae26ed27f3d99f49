import { type NameServer, nameServerLack } from '../../test/support/name-server.ts'
import type { Drill } from '../drill.ts'
import type { DrillFixture } from '../fixture.ts'
import { drillDomain, leadByNames } from '../lead-by-names.ts'

const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET']

const other = `other.${drillDomain}`

const serverOf = ({ notes }: DrillFixture): NameServer => notes.get('names') as NameServer

/** The address is left alone after as many failures, so that requests of each method meet it. */
const failures = 100

export const drill: Drill = {
  about: 'one of two addresses of the upstream refuses connections, while requests of every method come',
  cells: [['upstream', 'refuses']],
  alerts: ['SallyportUpstreamAddressDown'],
  findLack: () => nameServerLack,
  adapt: (flows) => {
    let turn = 0
    const method = (): string => methods[turn++ % methods.length] ?? 'GET'
    return { ...flows, session: { ...flows.session, path: '/public/x', method } }
  },
  prepare: async (fixture) => {
    const options = await leadByNames(fixture)
    serverOf(fixture).set(other, '127.0.0.1')
    const urls = [`upstream.${drillDomain}`, other].map((name) => `http://${name}:${fixture.wires.upstream.port}`)
    return { ...options, upstream: { url: undefined, urls, ejection: { failures } } }
  },
  // A listener that closes resets what it has not accepted yet: by its name the address is another one, of no listener.
  begin: (fixture) => serverOf(fixture).set(other, '127.9.9.9'),
  end: (fixture) => serverOf(fixture).set(other, '127.0.0.1'),
  lookDuring: async ({ gateway }) => {
    const lines = gateway().readLog().split('\n')
    const isTold = lines.some((line) => line.includes('"upstream address failed"') && line.includes(other))
    return [{ check: 'the log tells of the address', seen: String(isTold), limit: 'true', isMet: isTold }]
  },
}
