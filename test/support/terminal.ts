import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { stripVTControlCharacters } from 'node:util'

/** A pseudo-terminal by Python's own module: Node has none. The child ends with its standard input. */
const relay = `
import fcntl, os, pty, select, struct, sys, termios
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[3], sys.argv[3:])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', int(sys.argv[1]), int(sys.argv[2]), 0, 0))
while True:
    for ready in select.select([0, master], [], [])[0]:
        try:
            data = os.read(ready, 65536)
        except OSError:
            data = b''
        if ready == master and not data:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
        if ready == 0 and not data:
            os.kill(pid, 15)
            os.close(master)
            os._exit(0)
        os.write(1 if ready == master else master, data)
`

/** The reason why this machine has no pseudo-terminal, if it has none. */
export const terminalLack: string | undefined =
  spawnSync('python3', ['--version']).status === 0 ? undefined : 'there is no python3'

export type Terminal = Readonly<{
  type: (text: string) => void
  /** Resolves with all that was shown, without colors and moves of the cursor, once it matches. */
  waitFor: (wanted: RegExp, timeoutMs?: number) => Promise<string>
  shown: () => string
  ended: Promise<number | null>
  stop: () => Promise<void>
}>

export type TerminalOptions = Readonly<{
  cwd?: string
  env?: Readonly<Record<string, string>>
  rows?: number
  columns?: number
}>

export function openTerminal(command: readonly string[], options: TerminalOptions = {}): Terminal {
  const { rows = 30, columns = 80 } = options
  const child = spawn('python3', ['-c', relay, String(rows), String(columns), ...command], {
    cwd: options.cwd,
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', TERM: 'xterm', ...options.env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  let text = ''
  const watchers = new Set<() => void>()
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
    for (const watch of watchers) watch()
  })
  const ended = once(child, 'close').then(([code]) => {
    for (const watch of watchers) watch()
    return code as number | null
  })
  return {
    type: (typed) => void child.stdin.write(typed),
    waitFor: (wanted, timeoutMs = 15_000) =>
      new Promise((resolve, reject) => {
        const settle = (run: () => void): void => {
          clearTimeout(timer)
          watchers.delete(watch)
          run()
        }
        const fail = (why: string): void =>
          settle(() => reject(new Error(`${why} without ${String(wanted)}: ${JSON.stringify(text.slice(-2_000))}`)))
        const watch = (): void => {
          const plain = stripVTControlCharacters(text)
          if (wanted.test(plain)) settle(() => resolve(plain))
          else if (child.exitCode !== null) fail('the command ended')
        }
        const timer = setTimeout(() => fail(`${timeoutMs} ms`), timeoutMs)
        watchers.add(watch)
        watch()
      }),
    shown: () => text,
    ended,
    stop: async () => {
      child.stdin.end()
      await ended
    },
  }
}
