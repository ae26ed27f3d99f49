import { fork } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageRoot } from '../gateway/base/lib/package-root.ts'

type Address = Readonly<{ host: string; port: number }>
type Addresses = Readonly<Record<'public' | 'decision' | 'admin', Address>>

export type GatewayProcess = Readonly<{
  pid: number
  public: string
  decision: string
  admin: string
  ended: Promise<number>
  stop: () => Promise<number>
}>

const program = fileURLToPath(new URL('dist/gateway/main.js', packageRoot))
const configuration = fileURLToPath(new URL('config/demo.yaml', packageRoot))

export async function spawnGateway(
  logFile: string,
  environment: Readonly<Record<string, string>>,
): Promise<GatewayProcess> {
  const log = openSync(logFile, 'w', 0o600)
  const child = fork(program, ['serve', '--config', configuration], {
    env: { ...process.env, ...environment },
    execArgv: [],
    stdio: ['ignore', log, log, 'ipc'],
    detached: true,
  })
  const ended = once(child, 'exit').then(([code]) => (typeof code === 'number' ? code : 1))
  const ready = once(child, 'message').then(([message]) => message as Addresses)
  const addresses = await Promise.race([ready, ended.then(() => undefined)])
  if (!addresses) throw new Error(`the gateway did not start; see ${logFile}`)
  return {
    pid: child.pid ?? 0,
    public: toUrl(addresses.public),
    decision: toUrl(addresses.decision),
    admin: toUrl(addresses.admin),
    ended,
    stop: () => {
      child.kill('SIGINT')
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000)
      return ended.finally(() => clearTimeout(timer))
    },
  }
}

const toUrl = ({ host, port }: Address): string => `http://${host}:${port}`
