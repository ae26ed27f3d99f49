import { type Drill, findDropped, pipeLog, readerOf } from '../drill.ts'

export const drill: Drill = {
  about: 'the program that reads standard output by a pipe is killed',
  cells: [['log', 'refuses']],
  alerts: ['SallyportLogDropping'],
  prepare: (stage) => ({ output: pipeLog(stage), settings: { log: { bufferBytes: 65_536 }, audit: { sink: 'off' } } }),
  begin: (stage) => readerOf(stage).kill('SIGKILL'),
  end: () => undefined,
  lookDuring: findDropped,
}
