import { type Drill, findDropped, pipeLog, readerOf } from '../drill.ts'

export const drill: Drill = {
  about: 'the program that reads standard output by a pipe is killed',
  cells: [['log', 'refuses']],
  alerts: ['SallyportLogDropping'],
  prepare: (fixture) => ({
    output: pipeLog(fixture),
    settings: { log: { bufferBytes: 65_536 }, audit: { sink: 'off' } },
  }),
  begin: (fixture) => readerOf(fixture).kill('SIGKILL'),
  end: () => undefined,
  lookDuring: findDropped,
}
