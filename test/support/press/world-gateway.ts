import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import type { spawnGateway } from '../../../demo/gateway-process.ts'
import { column } from './column.ts'
import { pressConfiguration } from './press.ts'
import { frontFor } from './tls-ends.ts'

type Environment = Readonly<Record<string, string>>

const demo = fileURLToPath(new URL('../../../config/demo.yaml', import.meta.url))
const policies = fileURLToPath(new URL('../../../policies', import.meta.url))

/** The demo's configuration under the column of the drill, as a file beside the world's own. */
export function pressDemo({ ...environment }: Environment): string {
  if (column === undefined) return demo
  const { upstreams, ...written } = parse(readFileSync(demo, 'utf8'))
  const named = Object.entries(upstreams as Record<string, { url: string }>)
  const read = ({ url }: { url: string }) => ({ url: environment[url.slice(2, -1)] })
  const configuration = pressConfiguration({
    ...written,
    upstreams: Object.fromEntries(named.map(([name, upstream]) => [name, read(upstream)])),
    policies: { directory: policies },
  })
  const file = join(dirname(environment.DEMO_SIGNING_KEY ?? ''), 'pressed.yaml')
  writeFileSync(file, JSON.stringify(configuration))
  return file
}

/** A world's gateway in a process of its own, which the column presses. */
export const spawnPressed: typeof spawnGateway = async (_logFile, environment) => {
  const { serveBuild } = await import('../replicas.ts')
  const ends: (() => unknown)[] = []
  const owner = { teardown: (end: () => unknown) => ends.push(end) }
  const { pid, stop, public: clients, decision, admin } = await serveBuild(owner, pressDemo(environment), environment)
  return {
    ...{ pid, public: await frontFor(owner, clients), decision, admin, ended: new Promise(() => undefined) },
    stop: async () => {
      const code = await stop()
      for (const end of ends) await end()
      return code
    },
  }
}
