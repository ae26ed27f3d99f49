import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import t, { type Test } from 'tap'
import { call } from './client.ts'
import { readNodeOptions } from './dockerfile.ts'
import { until } from './gateway.ts'
import { testUnlessLacking } from './lacks.ts'
import { withOwner } from './owner.ts'
import { type Replica, startReplica } from './replicas.ts'

const isAlive = ({ admin }: Replica): Promise<boolean> =>
  call(admin, { path: '/healthz' }).then(
    ({ status }) => status === 200,
    () => false,
  )

t.test('replicas run side by side, each with its log, until they are stopped, killed or left', async (t) => {
  const replicas = await withOwner(async (owner) => {
    const [stopped, killed, left] = await Promise.all([1, 2, 3].map(() => startReplica(owner, {})))
    if (!stopped || !killed || !left) throw new Error('three were started')
    t.same(await Promise.all([stopped, killed, left].map(isAlive)), [true, true, true])
    t.equal(new Set([stopped, killed, left].map(({ pid }) => pid)).size, 3)
    await until(() => left.readLog().includes('"listening"'), 'the line of the start')
    t.match(left.readLog(), /"listening"/)
    t.equal(await stopped.stop(), 0)
    await killed.kill()
    t.same(await Promise.all([stopped, killed, left].map(isAlive)), [false, false, true])
    return [stopped, killed, left]
  })
  t.same(await Promise.all(replicas.map(isAlive)), [false, false, false])
})

t.test('a replica that does not start says why', async (t) => {
  await t.rejects(startReplica(t, { settings: { frobnicate: 1 } }), /does not know "frobnicate"/)
})

const startsAsTheImage = async (t: Test): Promise<void> => {
  const options = readNodeOptions()
  t.same(options, [
    '--no-memory-reducer',
    '--heap-growing-percent=100',
    '--max-semi-space-size=8',
    '--v8-pool-size=1',
    '--no-allocation-site-pretenuring',
  ])
  const { pid } = await startReplica(t, { settings: { workers: 2 } })
  const listed = execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], { encoding: 'utf8' })
  const workers = listed.trim().split(/\s+/)
  t.equal(workers.length, 2)
  for (const one of [pid, ...workers]) {
    const words = readFileSync(`/proc/${one}/cmdline`, 'utf8').split('\0')
    t.same(
      words.filter((word) => options.includes(word)),
      options,
    )
  }
}

const lack = existsSync('/proc/self/cmdline') && spawnSync('ps').status === 0 ? undefined : 'no /proc or no ps'
testUnlessLacking(t, 'a replica starts with the options of the image, and so do its workers', startsAsTheImage, lack)
