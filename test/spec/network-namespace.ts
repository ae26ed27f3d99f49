import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import type { Owner } from '../support/owner.ts'

const ip = (...words: readonly string[]): void => {
  const { status, stderr, error } = spawnSync('ip', words, { encoding: 'utf8' })
  if (status !== 0) throw new Error(`ip ${words.join(' ')}: ${error?.message ?? stderr}`)
}

/** The reason why this machine cannot make network namespaces, if it cannot. */
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

/** A network namespace that plays another machine, joined to this one by a virtual cable. */
export type OtherMachine = Readonly<{
  /** The address of this machine on the cable, and of the other one. */
  here: string
  there: string
  /** Runs a script by Node on the other machine. It ends with the owner. */
  run: (script: string) => ChildProcess
  /** Cuts the cable: no packet passes in either direction, and no connection is closed. */
  vanish: () => void
}>

let machines = 0

/** Makes a network namespace, and a virtual cable to it. */
export function startOtherMachine(owner: Owner): OtherMachine {
  machines += 1
  const name = `sallyport-${process.pid}-${machines}`
  const [near, far] = [`sp${process.pid}a${machines}`, `sp${process.pid}b${machines}`]
  const network = `10.${64 + (process.pid & 0x7f)}.${(process.pid >> 7) & 0xff}`
  const [here, there] = [`${network}.${machines * 4 + 1}`, `${network}.${machines * 4 + 2}`]
  ip('netns', 'add', name)
  // This deletes the cable as well.
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
