import type { Socket } from 'node:net'
import { type FaultComponent, guarded } from '../../base/fault/guarded.ts'

const connectionKey = Symbol('connection')

type Joined = Socket & { [connectionKey]?: unknown }

export const joinConnection = (socket: Socket, connection: object): void => {
  Object.assign(socket, { [connectionKey]: connection })
}

/**
 * A guarded listener that all connections share. One for each connection takes three objects: of ten thousand
 * connections that open at once, V8 copies 20 MB of them twice, while requests wait.
 */
export function guardedListener<Connection, First = void>(
  component: FaultComponent,
  work: (connection: Connection, first: First) => unknown,
  onFault?: (connection: Connection) => void,
): (this: Socket, first: First) => void {
  const run = guarded<Connection, First>(component, work, onFault)
  return function (this: Socket, first: First): void {
    run((this as Joined)[connectionKey] as Connection, first)
  }
}
