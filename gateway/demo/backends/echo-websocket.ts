import { WebSocketServer } from 'ws'
import type { TakeUpgrade } from './serve-backend.ts'

// RFC 6455 7.1.5: the code of a connection that ended without a closing handshake.
const abnormalClosure = 1006

/** Joins WebSockets at `/socket` and sends back every message as it came. */
export function echoWebSocket(): TakeUpgrade {
  const sockets = new WebSocketServer({ noServer: true })
  return ({ request, path, endExchange }, socket, head) => {
    if (path !== '/socket' || request.method !== 'GET') return false
    let isJoined = false
    // A handshake that ws refuses is answered by ws, and ends here.
    socket.once('close', () => isJoined || endExchange({ aborted: false }))
    sockets.handleUpgrade(request, socket, head, (joined) => {
      isJoined = true
      joined.on('message', (data, isBinary) => joined.send(data, { binary: isBinary }))
      // 'close' follows with its code.
      joined.on('error', () => undefined)
      joined.once('close', (code) => endExchange({ aborted: code === abnormalClosure }))
    })
    return true
  }
}
