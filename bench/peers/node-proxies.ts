import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findFreePort, type Peer, startServer } from './peer.ts'

const packages = fileURLToPath(new URL('../../.sallyport/bench/node_modules', import.meta.url))
const loader = new URL('../typescript.js', import.meta.url).href
const program = fileURLToPath(new URL('node-proxy.ts', import.meta.url))

/** Proxy packages of npm. Each runs in one process with the gateway's own decision, and forwards what that permits. */
export const nodeProxies: readonly Peer[] = ['http-proxy', 'fast-gateway', '@fastify/http-proxy'].map((engine) => ({
  name: `${engine}, same decision`,
  lack: () =>
    existsSync(`${packages}/${engine}`) ? undefined : `there is no ${engine} (node scripts/install-tools.js bench)`,
  start: async (owner, { backendPort, configurationFile }) => {
    const port = await findFreePort()
    const pid = await startServer(owner, port, {
      path: process.execPath,
      args: [`--import=${loader}`, program, engine, configurationFile, String(port), String(backendPort), packages],
      environment: { NODE_ENV: 'production' },
    })
    return { name: `${engine}, same decision`, port, pids: [pid] }
  },
}))
