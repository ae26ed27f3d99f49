import { startNameServer } from '../test/support/name-server.ts'
import type { GatewayOptions } from './drill.ts'
import type { DrillFixture } from './fixture.ts'

export const drillDomain = 'drill.test'

/** Gives each dependency a name in a name server of the drill. Every request opens a connection to the upstream by its name. */
export async function leadByNames({ owner, notes, upstream }: DrillFixture): Promise<GatewayOptions> {
  const names = await startNameServer(owner)
  for (const name of ['database', 'redis', 'issuer', 'upstream']) names.set(`${name}.${drillDomain}`, '127.0.0.1')
  notes.set('names', names)
  upstream.answer((response) => void response.setHeader('connection', 'close').end('ok'))
  return { within: names.command, domain: drillDomain, settings: { dns: { cacheMs: 500 } } }
}
