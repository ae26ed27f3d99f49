import { type Drill, findDropped, pipeLog, readerOf } from '../drill.ts'

export const drill: Drill = {
  about: 'the program that reads standard output by a pipe is stopped, and goes on',
  cells: [['log', 'hangs']],
  alerts: ['SallyportLogDropping'],
  prepare: (fixture) => ({
    output: pipeLog(fixture),
    settings: { log: { bufferBytes: 65_536 }, audit: { sink: 'off' } },
  }),
  begin: (fixture) => readerOf(fixture).kill('SIGSTOP'),
  end: (fixture) => readerOf(fixture).kill('SIGCONT'),
  lookDuring: findDropped,
}
