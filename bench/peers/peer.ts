import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findFreePort } from '../../demo/free-port.ts'
import { startProgram } from '../../test/integrate/ingress/start-program.ts'
import type { Owner } from '../../test/support/owner.ts'

/** The addresses and keys that every way to the backend gets. */
export type Surroundings = Readonly<{
  backendPort: number
  /** A gateway to ask. */
  gateway: Readonly<{ pid: number; public: string; decision: string }>
  issuer: Readonly<{ url: string; jwksUrl: string; jwks: string; keyId: string; publicPem: string; audience: string }>
  /** The configuration that the gateway runs with, but for its ports. */
  configurationFile: string
}>

/** One way to the backend that can be measured. */
export type Way = Readonly<{
  name: string
  port: number
  /** Whether it takes the JWT in Authorization alone. */
  takesBearer?: true
  /** All processes whose work it is, children counted. */
  pids: readonly number[]
}>

/** A way that may be missing on this machine; `lack` says what it needs. */
export type Peer = Readonly<{
  name: string
  lack: () => string | undefined
  start: (owner: Owner, surroundings: Surroundings) => Promise<Way>
}>

/** The processor of the measured program alone; load and backend share the other. */
export const measuredCore = '0'
export const otherCore = '1'

export type Server = Readonly<{
  path: string
  args: readonly string[]
  files?: Readonly<Record<string, string>>
  environment?: Readonly<Record<string, string>>
  core?: string
}>

/** Writes its files into a folder of its own and starts a server there, on one processor. */
export async function startServer(owner: Owner, port: number, server: Server): Promise<number> {
  const { path, args, files = {}, environment = {}, core = measuredCore } = server
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-bench-'))
  // Servers drop the rights of root before they read the folder.
  chmodSync(folder, 0o755)
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const [name, text] of Object.entries(files))
    writeFileSync(join(folder, name), text.replaceAll('@FOLDER', folder))
  const words = args.map((word) => word.replaceAll('@FOLDER', folder))
  return startProgram(owner, { path: 'taskset', args: ['-c', core, path, ...words], environment, folder, port })
}

export { findFreePort }
