import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { makeAuditFolder } from '../support/audit.ts'
import { call, callRaw } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { isAlive, type ServeOptions, type Serving, startServing } from '../support/serve.ts'
import { nowhere, readMetric } from '../support/workers.ts'

const skip = process.platform === 'linux' ? false : 'looks at pipes and /dev/full'

/** A small buffer, so that few lines fill it, and a drain without delay. */
const settings = {
  log: { bufferBytes: 65_536 },
  audit: { sink: 'off' },
  drain: { delayMs: 0, timeoutMs: 1_000 },
}

const kinds = { 'one process': 1, 'two workers': 2 }

const countDropped = async (serving: Serving): Promise<number> =>
  (await readMetric(serving, 'sallyport_log_lines_dropped_total'))[''] ?? 0

/** A request whose line of the log is as long as one can be, so that few lines fill the buffer. */
const longNowhere = { path: `/nowhere${'/a'.repeat(500)}` }

const ask = async ({ public: origin }: Serving): Promise<void> => {
  const { status } = await call(origin, longNowhere)
  if (status !== 404) throw new Error(`answered ${status}`)
}

/** On few connections, since a connection of its own costs more than such a request. */
async function askMany({ public: origin }: Serving): Promise<void> {
  const head = `GET ${longNowhere.path} HTTP/1.1\r\nHost: h\r\n`
  const bytes = `${`${head}\r\n`.repeat(19)}${head}Connection: close\r\n\r\n`
  const texts = await Promise.all(Array.from({ length: 10 }, () => callRaw(origin, bytes, 20_000)))
  const answers = texts.map((text) => text.split('HTTP/1.1 404 ').length - 1)
  if (answers.some((count) => count !== 20)) throw new Error(`answered ${answers}: ${texts[0]?.slice(0, 100)}`)
}

async function fill(serving: Serving): Promise<void> {
  const before = await countDropped(serving)
  const isFull = async (): Promise<boolean> => {
    await askMany(serving)
    return (await countDropped(serving)) > before
  }
  await until(isFull, 'dropped lines', 30_000)
}

function openPipe(t: Test) {
  const path = join(makeAuditFolder(t), 'pipe')
  execFileSync('mkfifo', [path])
  // Open for both, so that opening does not wait for the other side.
  const descriptor = openSync(path, constants.O_RDWR | constants.O_NONBLOCK)
  const writing = openSync(path, constants.O_WRONLY)
  let isOpen = true
  const close = (): void => {
    if (isOpen) closeSync(descriptor)
    isOpen = false
  }
  t.teardown(() => {
    close()
    closeSync(writing)
  })
  let text = ''
  const read = (): string => {
    const chunk = Buffer.alloc(65_536)
    try {
      for (;;) text += chunk.toString('latin1', 0, readSync(descriptor, chunk))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
    }
    return text
  }
  return { writing, read, closeReading: close }
}

const start = (t: Test, workers: number, options: Partial<ServeOptions> = {}): Promise<Serving> =>
  startServing(t, { ...options, settings: { ...settings, workers, ...options.settings } })

async function checkUnharmed(t: Test, serving: Serving): Promise<void> {
  await fill(serving)
  t.equal((await call(serving.admin, { path: '/healthz' })).status, 200)
  await ask(serving)
  await checkEnd(t, serving)
}

async function checkEnd(t: Test, serving: Serving, codes: readonly (number | null)[] = [0]): Promise<void> {
  serving.child.kill('SIGTERM')
  const timeout = new Promise<string>((resolve) => setTimeout(() => resolve('it goes on'), 15_000).unref())
  const code = await Promise.race([serving.ended, timeout])
  t.ok(codes.includes(code as number | null), `ended with ${code}`)
  t.equal(isAlive(serving.pid), false)
}

for (const [kind, workers] of Object.entries(kinds)) {
  t.test(`${kind}: a full disk behind standard output costs lines alone`, { skip }, async (t) => {
    const full = openSync('/dev/full', 'w')
    t.teardown(() => closeSync(full))
    const serving = await start(t, workers, { output: { stdout: full, stderr: full } })
    await checkUnharmed(t, serving)
  })

  t.test(`${kind}: a socket that is not read costs lines alone`, { skip }, async (t) => {
    const serving = await start(t, workers)
    serving.child.stdout?.pause()
    await fill(serving)
    t.equal((await call(serving.admin, { path: '/healthz' })).status, 200)
    serving.child.kill('SIGTERM')
    // A write that waits for the reader may hold a thread; then a signal ends the process.
    await until(() => !isAlive(serving.pid), 'the end', 10_000)
    serving.child.stdout?.resume()
    t.ok([0, null].includes(await serving.ended))
  })

  t.test(`${kind}: a pipe that is not read`, { skip }, async (t) => {
    const pipe = openPipe(t)
    const serving = await start(t, workers, { output: { stdout: pipe.writing, stderr: pipe.writing } })

    await t.test('costs lines alone, and one line says how many', async (t) => {
      await fill(serving)
      const told = (): number =>
        [...pipe.read().matchAll(/"dropped":(\d+),"msg":"log lines dropped"/g)].reduce(
          (sum, [, count]) => sum + Number(count),
          0,
        )
      await until(async () => told() === (await countDropped(serving)), 'the line that tells how many')
      await call(serving.public, { ...nowhere, headers: { 'x-request-id': 'afterwards' } })
      await until(() => pipe.read().includes('"afterwards"'), 'and from then on every line')
      for (const line of pipe.read().split('\n').slice(0, -1)) t.doesNotThrow(() => JSON.parse(line))
      t.equal(told(), await countDropped(serving))
    })

    if (workers > 1) await checkEnd(t, serving)
    else await t.test('does not hold up the end', (t) => checkUnharmed(t, serving))
  })

  if (workers > 1) continue

  t.test(`${kind}: a reader that is gone costs lines alone`, { skip }, async (t) => {
    const pipe = openPipe(t)
    const serving = await start(t, workers, { output: { stdout: pipe.writing, stderr: pipe.writing } })
    pipe.closeReading()
    await checkUnharmed(t, serving)
  })
}

t.test('a warning of Node goes to the log, not to a standard error that is not read', { skip }, async (t) => {
  const pipe = openPipe(t)
  const preload = `process.on('SIGUSR2', () => {
    for (let count = 0; count < 1_000; count++) process.emitWarning('planted '.repeat(10) + count)
  })`
  const serving = await start(t, 1, { preload, output: { stderr: pipe.writing }, settings: { log: {} } })
  serving.child.kill('SIGUSR2')
  await until(() => serving.log().filter(({ msg }) => msg === 'node warning').length === 1_000, 'the lines')
  t.match(
    serving.log().find(({ msg }) => msg === 'node warning'),
    { level: 'warn', error: { message: /^planted/ } },
  )
  t.equal(pipe.read(), '')
  await ask(serving)
})

t.test('a file that does not open keeps no process from its end', { skip }, async (t) => {
  const path = join(makeAuditFolder(t), 'pipe')
  execFileSync('mkfifo', [path])
  for (const workers of [1, 2]) {
    // A pipe without a writer: opening it waits in a thread.
    const serving = await start(t, workers, { preload: `require('node:fs').open('${path}', 'r', () => {})` })
    await ask(serving)
    // SIGTERM itself ends a process whose thread hangs.
    await checkEnd(t, serving, [null])
  }
})

t.test('memory is bounded while standard output is not read', { skip }, async (t) => {
  const { writing } = openPipe(t)
  const log = fileURLToPath(new URL('../../dist/gateway/observe/log/log.js', import.meta.url))
  const script = `
    import { createLog } from '${log}'
    import { memoryUsage } from 'node:process'
    let dropped = 0
    const metrics = { countDroppedLogLines: (lines) => { dropped += lines }, watchLogSink: () => {} }
    const log = createLog('info', { metrics })
    const fields = { requestId: 'x'.repeat(36), clientAddress: '127.0.0.1', method: 'GET', path: '/' + 'x'.repeat(200) }
    const write = async (lines) => {
      for (let line = 0; line < lines; line++) {
        log.request({ ...fields, line })
        if (line % 1_000 === 0) await new Promise(setImmediate)
      }
      gc()
      const { heapUsed, external } = memoryUsage()
      return heapUsed + external
    }
    const before = await write(30_000)
    process.send({ growth: (await write(150_000)) - before, dropped })
    process.disconnect()
    await log.close(100)`
  const child = spawn(process.execPath, ['--expose-gc', '--input-type=module', '-e', script], {
    stdio: ['ignore', writing, 'inherit', 'ipc'],
  })
  const ended = once(child, 'exit')
  const [{ growth, dropped }] = await once(child, 'message')
  // The lines themselves are 45 MB, and the code that V8 compiles meanwhile is a megabyte or two.
  t.ok(growth <= 8 * 1024 * 1024, `${growth} bytes`)
  t.ok(dropped > 120_000 && dropped < 180_000, `${dropped} dropped`)
  t.same(await ended, [0, null])
})
