import t from 'tap'
import { listSources, readSource } from '../../support/sources.ts'
import { findBareCallbacks } from './find-callbacks.ts'

/** Files that serve no request: the demo, and code of a process that starts or ends. */
const isElsewhere = (file: string): boolean =>
  /^demo\/|^base\/fault\/|^run\/boot\/crash\.ts$|^main\.ts$|^tools\/cli\/healthcheck\.ts$/.test(file)

t.test('no callback of a socket, timer or emitter can end the process', async (t) => {
  const files = listSources()
  t.ok(files.length > 300)
  const bare = files.filter((file) => !isElsewhere(file)).flatMap((file) => findBareCallbacks(file, readSource(file)))
  t.same(bare, [])
})

t.test('a callback that is not guarded is found, wherever it is registered', async (t) => {
  const bare: readonly string[] = [
    "socket.on('data', (bytes) => take(bytes))",
    "socket.once('close', this.#onClose)",
    "socket.on('end', onEnd)",
    'setTimeout(work, 5)',
    'setInterval(() => void work(), 5)',
    'setImmediate(this.#next)',
    'queueMicrotask(() => work())',
    'process.nextTick(answer, 1)',
    'socket.setTimeout(5, () => work())',
    'socket.end(() => { work() })',
    'const options = { callback: (length: number) => take(length) }',
    "signal.addEventListener('abort', work)",
    "socket.on('data', (bytes) => { try { take(bytes) } catch {} })",
    'class X { #next = () => work(); start() { setImmediate(this.#next) } }',
    'const next = () => work()\nsetImmediate(next)',
  ]
  for (const source of bare) t.equal(findBareCallbacks('x.ts', source).length, 1, source)
})

t.test('a callback that is guarded, or cannot throw, is not found', async (t) => {
  const safe: readonly string[] = [
    "socket.on('data', guarded('client', take))",
    "const take = guarded('client', (bytes) => work(bytes))\nsocket.on('data', take)",
    "class X { #next = guarded('timer', () => work()); start() { setImmediate(this.#next) } }",
    "socket.on('error', () => {})",
    "socket.on('error', () => undefined)",
    'setTimeout(resolve, 5)',
    'setTimeout(() => socket.destroy(), 5)',
    "const options = { callback: () => { try { take() } catch (error) { reportFault('client', error) } } }",
    "map.on('x')",
  ]
  for (const source of safe) t.same(findBareCallbacks('x.ts', source), [], source)
})
