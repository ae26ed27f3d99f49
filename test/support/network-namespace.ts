import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import type { Owner } from './owner.ts'

const ip = (...words: readonly string[]): void => {
  const { status, stderr, error } = spawnSync('ip', words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${error?.message ?? stderr}`)
}

/** Why another network cannot be laid beside this machine's here, if so. */
export const namespaceLack: string | undefined = findLack()

function findLack(): string | undefined {
  const name = `sallyport-${process.pid}`
  try {
    ip('netns', 'add', name)
    ip('netns', 'del', name)
    return undefined
  } catch (error) {
    return `no network namespaces: ${(error as Error).message}`
  }
}

/** Another machine, on a cable to this one. */
export type OtherMachine = Readonly<{
  /** The address of this machine on the cable, and of the other one. */
  here: string
  there: string
  /** Runs a script of Node over there; it ends with the owner. */
  run: (script: string) => ChildProcess
  /** The other machine is gone without a word: nothing of it arrives any more, and nothing reaches it. */
  vanish: () => void
}>

let machines = 0

/** Lays a cable to a network namespace of its own. */
export function startOtherMachine(owner: Owner): OtherMachine {
  machines += 1
  const name = `sallyport-${process.pid}-${machines}`
  const [near, far] = [`sp${process.pid}a${machines}`, `sp${process.pid}b${machines}`]
  const network = `10.${64 + (process.pid & 0x7f)}.${(process.pid >> 7) & 0xff}`
  const [here, there] = [`${network}.${machines * 4 + 1}`, `${network}.${machines * 4 + 2}`]
  ip('netns', 'add', name)
  // The cable goes with it.
  owner.teardown(() => ip('netns', 'del', name))
  ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name)
  ip('addr', 'add', `${here}/30`, 'dev', near)
  ip('link', 'set', near, 'up')
  ip('-n', name, 'addr', 'add', `${there}/30`, 'dev', far)
  ip('-n', name, 'link', 'set', far, 'up')
  return {
    here,
    there,
    run: (script) => {
      const child = spawn('ip', ['netns', 'exec', name, process.execPath, '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      owner.teardown(() => child.kill('SIGKILL'))
      return child
    },
    vanish: () => ip('-n', name, 'link', 'set', far, 'down'),
  }
}
