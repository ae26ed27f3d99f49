import cluster from 'node:cluster'
import type { HistoryQuery } from '../admin/history/history.ts'
import type { AdminState } from '../admin/listener.ts'
import type { RequestListeners } from '../boot/gateway.ts'
import type { ListenerSettings } from '../configuration/configuration.ts'
import type { Failure } from '../configuration/failure.ts'

/** The addresses on which a group listens. */
export type ListenerAddresses = Readonly<Pick<RequestListeners, 'public' | 'decision'>>

/** Without what TLS needs: this goes by the environment, where no key belongs. */
type ListenerEndpoint = Pick<ListenerSettings, 'host' | 'port'>

/** What a worker is told at its start: its number from 1, and where its siblings listen. */
export type Assignment = Readonly<{
  number: number
  listeners: Readonly<Record<'public' | 'decision', ListenerEndpoint>>
}>

export type WorkerQuestion = keyof AdminState

export type WorkerAnswer<Name extends WorkerQuestion> = Awaited<ReturnType<AdminState[Name]>>

export type DrainTimes = Readonly<{ delayMs: number; timeoutMs: number }>

/** From the primary to a worker. */
export type WorkerCommand =
  | Readonly<{ kind: 'ping'; id: number }>
  | Readonly<{ kind: 'ask'; id: number; question: WorkerQuestion; query?: HistoryQuery | undefined }>
  | Readonly<{ kind: 'reload' }>
  | (Readonly<{ kind: 'drain' }> & DrainTimes)

/** From a worker to the primary. An answer without a value is one that could not be given. */
export type WorkerMessage =
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
