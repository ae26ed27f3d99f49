// The attacker of bench:slow-clients: slowhttptest, which must be on PATH.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { otherCore } from './peers/peer.ts'

/** An attack on a gateway: what the attacker is told, and how many connections it opens. */
export type Attack = Readonly<{ origin: string; options: readonly string[]; connections: number }>

/** The outcome of the attacker's connections. */
export type Attacked = Readonly<{
  /** The gateway's descriptors for them at the same time: one each, or two where an upstream is asked. */
  most: number
  /** From the last connection of the attacker to the end of them all. */
  cutAfterMs: number
}>

/** The connections that the attacker opens in a second, by its own default. */
const rate = 50

/**
 * The attacker's options, as its manual names them. The reader takes 32 bytes in five seconds, once the system's
 * buffers are full.
 */
export const attacks: readonly (readonly [name: string, options: readonly string[]])[] = [
  ['slow heads', ['-H', '-i', '5', '-x', '24']],
  ['slow bodies', ['-B', '-i', '5', '-x', '24', '-s', '8192', '-t', 'POST']],
  ['slow readers', ['-X', '-n', '5', '-z', '32', '-w', '512', '-y', '1024']],
]

/** Descriptors more or less that do not belong to an attacker. */
const spare = 20

/**
 * The part of the attacker's connections that have to stand at the same time. The first are cut when the last are opened,
 * and an attacker who has only idle time opens them later.
 */
const enough = 0.5

/**
 * Resolves to the time that its longest connection stood, by the gateway's descriptors. The reader notices last, and
 * frequent requests for metrics would be an attack too.
 */
export async function attack({ origin, options, connections }: Attack, counter: ChildProcess): Promise<Attacked> {
  const countDescriptors = async (): Promise<number> => Number((await once(counter, 'message'))[0])
  const before = await countDescriptors()
  const child = startAttacker({ origin, options, connections })
  const ended = once(child, 'close')
  const startedMs = performance.now()
  try {
    let openedMs = startedMs
    let most = before
    let open = before
    // Each connection has a descriptor at least. As long as there are more than ever, one is still missing.
    while (open > before + spare || most < before + connections * enough) {
      if (open > most) [most, openedMs] = [open, performance.now()]
      if (performance.now() - startedMs > 120_000)
        throw new Error(
          `two minutes after the attack began: ${before} descriptors before, ${most} at most, ${open} now`,
        )
      open = await countDescriptors()
    }
    return { most: most - before, cutAfterMs: performance.now() - openedMs }
  } finally {
    child.kill()
    await ended
  }
}

/** An attack that runs on in the background. */
export async function attackFor(ms: number, attack: Attack): Promise<void> {
  const child = startAttacker(attack)
  const ended = once(child, 'close')
  await sleep(ms)
  child.kill()
  await ended
}

function startAttacker({ origin, options, connections }: Attack): ChildProcess {
  const common = ['-c', String(connections), '-r', String(rate), '-l', '240', '-u', `${origin}/large`]
  // By programs that become the next one: to set it aside once it runs would hold up those who ask.
  return spawn('chrt', ['--idle', '0', 'taskset', '-c', otherCore, 'slowhttptest', ...options, ...common], {
    stdio: 'ignore',
  })
}

/** Gives processes that would have machines of their own only the idle time of one processor. */
export function setAside(pid: number | undefined): void {
  execFileSync('taskset', ['-a', '-p', '-c', otherCore, String(pid)], { stdio: 'ignore' })
  execFileSync('chrt', ['--all-tasks', '--idle', '--pid', '0', String(pid)], { stdio: 'ignore' })
}
