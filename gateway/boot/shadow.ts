import { describeBug, type Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import type { BeginTrail } from '../observe/trail.ts'
import { type PolicyTexts, parsePolicy, readPolicyTexts } from '../policy/load.ts'
import { compileRoutes } from '../route/table.ts'
import { createReport } from '../shadow/difference.ts'
import type { ShadowTable } from '../shadow/judge.ts'
import { createShadowTrails } from '../shadow/shadow-trails.ts'
import type { Configuration } from './configuration.ts'
import { lookEveryMs, type Policies } from './policies.ts'
import { createFilesWatch, repeat } from './watch-files.ts'

/** The table that is tried beside the one in force; it follows its files likewise. */
export type Shadow = Policies & Readonly<{ watch: (beginTrail: BeginTrail) => BeginTrail }>

type Surroundings = Readonly<{ log: Log; metrics: Metrics; monotonicMs: () => number }>

/** Where there is none, requests have nothing to do with it. One that is no good is told of, and the gateway serves. */
export function startShadow(configuration: Configuration, { log, metrics, monotonicMs }: Surroundings): Shadow {
  const { shadow: directory } = configuration.policies
  if (directory === undefined)
    return { watch: (beginTrail) => beginTrail, reload: async () => undefined, stop: () => undefined }
  const upstreams = new Set(Object.keys(configuration.upstreams))
  let table: ShadowTable | undefined
  const look = createFilesWatch<PolicyTexts | undefined>({
    inUse: undefined,
    read: () => readPolicyTexts(directory),
    adopt: (texts) => {
      const { routes, roles } = parsePolicy(directory, texts ?? new Map(), upstreams)
      table = Object.freeze({ table: compileRoutes(routes), roles })
    },
    noteOutcome: metrics.noteShadowReload,
    log,
    sentences: {
      failed: 'the shadow policies could not be loaded; the last good ones go on, if there are any',
      reloaded: 'shadow policies loaded',
      restored: 'the shadow policies in use are back in their files',
    },
  })
  const onBug = (error: unknown): void =>
    log.error({ error: describeBug(error) }, 'the shadow policies could not be looked after')
  const reload = (): Promise<void> => look(true).catch(onBug)
  void reload()
  const report = createReport({ log, metrics, monotonicMs })
  return {
    watch: (beginTrail) => createShadowTrails(beginTrail, () => table, report),
    reload,
    stop: repeat(look, lookEveryMs, onBug),
  }
}
