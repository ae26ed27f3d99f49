import cluster from 'node:cluster'
import type { ListenerSettings } from '../../configuration/configuration.ts'
import type { Failure } from '../../configuration/failure.ts'
import type { AdminState } from '../../listeners/admin/listener.ts'
import type { RequestListeners } from '../boot/gateway.ts'

export type ListenerAddresses = Readonly<Pick<RequestListeners, 'public' | 'decision' | 'signals'>>

/** Without TLS settings: it travels in the environment, where a key must not be. */
type ListenerEndpoint = Pick<ListenerSettings, 'host' | 'port'>

export type Assignment = Readonly<{
  number: number
  listeners: Readonly<Record<'public' | 'decision', ListenerEndpoint> & { signals?: ListenerEndpoint }>
}>

export type WorkerQuestion = keyof AdminState

export type WorkerQuery<Name extends WorkerQuestion = WorkerQuestion> = Parameters<AdminState[Name]>[0]

export type WorkerAnswer<Name extends WorkerQuestion> = Awaited<ReturnType<AdminState[Name]>>

export type DrainTimes = Readonly<{ delayMs: number; timeoutMs: number }>

export type WorkerCommand =
  | Readonly<{ kind: 'ping'; id: number }>
  | Readonly<{ kind: 'ask'; id: number; question: WorkerQuestion; query?: WorkerQuery }>
  | Readonly<{ kind: 'reload' }>
  | (Readonly<{ kind: 'drain' }> & DrainTimes)

export type WorkerMessage =
  | Readonly<{ kind: 'serving'; addresses: ListenerAddresses }>
  | Readonly<{ kind: 'failed'; failure: Failure }>
  | Readonly<{ kind: 'answer'; id: number; value?: unknown }>

const variable = 'SALLYPORT_ASSIGNMENT'

/** A worker reads its environment before its first message can arrive. */
export const writeAssignment = (assignment: Assignment): Record<string, string> => ({
  [variable]: JSON.stringify(assignment),
})

export function readAssignment(environment: NodeJS.ProcessEnv): Assignment | undefined {
  const text = cluster.isWorker ? environment[variable] : undefined
  return text === undefined ? undefined : (JSON.parse(text) as Assignment)
}
