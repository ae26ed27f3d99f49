import type { Drill } from '../drill.ts'

/** A killed worker loses its requests, and those on their way to it. */
const lost = { statuses: [0], withinMs: 5_000, share: 0.1 }

export const drill: Drill = {
  about: 'one of two workers is killed, and replaced',
  cells: [],
  alerts: ['SallyportWorkersRestarting'],
  prepare: () => ({ settings: { workers: 2 } }),
  begin: ({ pids }) => {
    const [, worker] = pids()
    if (worker === undefined) throw new Error('there is no worker')
    process.kill(worker, 'SIGKILL')
  },
  end: () => undefined,
  isMild: true,
  expect: {
    ...{ public: lost, anonymous: lost, session: lost, token: lost },
    ...{ unknown: lost, revoked: lost, forged: lost, newcomer: lost },
  },
  lookDuring: async ({ metric, pids }) => {
    const restarts = await metric('sallyport_worker_restarts_total')
    const workers = pids().length - 1
    return [
      { check: 'workers started again', seen: `${restarts}`, limit: '1', isMet: restarts === 1 },
      { check: 'workers that run', seen: `${workers}`, limit: '2', isMet: workers === 2 },
    ]
  },
}
