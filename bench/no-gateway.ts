import type { WorldOptions } from '../demo/world.ts'

/** In the place of the world’s own gateway. A signal to its pid throws, where one to 0 would reach this process. */
export const runNone: NonNullable<WorldOptions['runGateway']> = async () => ({
  ...{ pid: Number.NaN, public: '', decision: '', admin: '' },
  ended: new Promise(() => undefined),
  stop: async () => 0,
})
