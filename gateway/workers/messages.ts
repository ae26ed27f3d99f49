import cluster from 'node:cluster'
import type { AdminFacts } from '../admin/listener.ts'
import type { Doors } from '../boot/gateway.ts'
import type { ListenerSettings } from '../configuration/configuration.ts'
import type { Failure } from '../configuration/failure.ts'

/** Where the doors of a group stand. */
export type ListenerAddresses = Readonly<Pick<Doors, 'public' | 'decision'>>

/** Without what TLS needs: this goes by the environment, where no key belongs. */
type Door = Pick<ListenerSettings, 'host' | 'port'>

/** What a worker is told at its start: its number from 1, and where its siblings listen. */
export type Assignment = Readonly<{
  number: number
  listeners: Readonly<Record<'public' | 'decision', Door>>
}>

export type WorkerQuestion = keyof AdminFacts

export type WorkerAnswer<Name extends WorkerQuestion> = Awaited<ReturnType<AdminFacts[Name]>>

export type DrainTimes = Readonly<{ delayMs: number; timeoutMs: number }>

/** From the primary to a worker. */
export type Order =
  | Readonly<{ kind: 'ping'; id: number }>
  | Readonly<{ kind: 'ask'; id: number; question: WorkerQuestion }>
  | Readonly<{ kind: 'reload' }>
  | (Readonly<{ kind: 'drain' }> & DrainTimes)

/** From a worker to the primary. An answer without a value is one that could not be given. */
export type Report =
  | Readonly<{ kind: 'serving'; addresses: ListenerAddresses }>
  | Readonly<{ kind: 'failed'; failure: Failure }>
  | Readonly<{ kind: 'answer'; id: number; value?: unknown }>

const variable = 'SALLYPORT_ASSIGNMENT'

/** The environment of a worker: read before its first message could arrive. */
export const writeAssignment = (assignment: Assignment): Record<string, string> => ({
  [variable]: JSON.stringify(assignment),
})

/** Undefined in every process but a worker. */
export function readAssignment(environment: NodeJS.ProcessEnv): Assignment | undefined {
  const text = cluster.isWorker ? environment[variable] : undefined
  // Written by our own primary, for this process.
  return text === undefined ? undefined : (JSON.parse(text) as Assignment)
}
