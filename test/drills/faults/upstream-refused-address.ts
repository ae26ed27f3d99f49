import { type NameServer, nameServerLack } from '../../support/name-server.ts'
import type { Drill } from '../drill.ts'
import { drillDomain, leadByNames } from '../lead-by-names.ts'
import type { Stage } from '../stage.ts'

const methods = ['POST', 'PUT', 'PATCH', 'DELETE', 'GET']

const other = `other.${drillDomain}`

const serverOf = ({ notes }: Stage): NameServer => notes.get('names') as NameServer

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
  prepare: async (stage) => {
    const options = await leadByNames(stage)
    serverOf(stage).set(other, '127.0.0.1')
    const urls = [`upstream.${drillDomain}`, other].map((name) => `http://${name}:${stage.wires.upstream.port}`)
    return { ...options, upstream: { url: undefined, urls, ejection: { failures } } }
  },
  // A listener that closes resets what it has not accepted yet: by its name the address is another one, of no listener.
  begin: (stage) => serverOf(stage).set(other, '127.9.9.9'),
  end: (stage) => serverOf(stage).set(other, '127.0.0.1'),
  lookDuring: async ({ gateway }) => {
    const lines = gateway().readLog().split('\n')
    const isTold = lines.some((line) => line.includes('"upstream address failed"') && line.includes(other))
    return [{ check: 'the log tells of the address', seen: String(isTold), limit: 'true', isMet: isTold }]
  },
}
