import type { Engine } from '../../gateway/engine/engine.ts'
import type { Names } from '../../gateway/engine/names.ts'
import { createNodeEngine } from '../../gateway/engine/node/engine.ts'
import { createWireEngine } from '../../gateway/engine/wire/engine.ts'

export type EngineName = 'node' | 'wire'

export const engines: Readonly<Record<EngineName, (maxUpstreamConnections?: number, names?: Names) => Engine>> = {
  node: createNodeEngine,
  wire: createWireEngine,
}

/** The engine of every gateway that a test starts, unless it chooses one itself: `SALLYPORT_ENGINE`, by default `wire`. */
export const testEngine: EngineName = process.env.SALLYPORT_ENGINE === 'node' ? 'node' : 'wire'

/** Begins a pipelined request while an earlier one of its connection waits for its answer. */
export const readsAhead = testEngine === 'node'

export const createTestEngine = engines[testEngine]
