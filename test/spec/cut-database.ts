import type { Test } from 'tap'
import { call } from '../support/client.ts'
import { startTestGateway, type TestGateway, until } from '../support/gateway.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { patience, type TestWorld } from '../support/world.ts'

/** Each source that connects clears the caches, from which an outage is answered. */
export const untilHears = ({ admin }: TestGateway, source: 'postgres' | 'redis'): Promise<void> =>
  until(
    async () => (await call(admin, { path: '/metrics' })).text.includes(`source_up{source="${source}"} 1`),
    `the connection to ${source}`,
  )

/** A gateway whose connections to PostgreSQL a test may stop. */
export async function startBehindProxy(owner: Test, world: TestWorld, settings: object) {
  const url = new URL(world.databaseUrl)
  const proxy = await startTcpProxy(owner, { port: Number(url.port) })
  url.port = String(proxy.port)
  const gateway = await startTestGateway(owner, {
    world,
    settings: { directory: { graceMs: 60_000 }, ...settings, database: { url: url.href, ...patience } },
  })
  await untilHears(gateway, 'postgres')
  const stop = (): void => {
    proxy.refuse()
    proxy.cut()
  }
  return { gateway, stop, start: proxy.accept }
}
