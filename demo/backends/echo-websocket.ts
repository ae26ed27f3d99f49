import { WebSocketServer } from 'ws'
import type { TakeUpgrade } from './serve-backend.ts'

// RFC 6455 7.1.5: a connection that ended without a closing handshake.
const abnormalClosure = 1006

export function echoWebSocket(): TakeUpgrade {
  const sockets = new WebSocketServer({ noServer: true })
  return ({ request, path, endExchange }, socket, head) => {
    if (path !== '/socket' || request.method !== 'GET') return false
    let isJoined = false
    socket.once('close', () => isJoined || endExchange({ aborted: false }))
    sockets.handleUpgrade(request, socket, head, (joined) => {
      isJoined = true
      joined.on('message', (data, isBinary) => joined.send(data, { binary: isBinary }))
      joined.on('error', () => undefined)
      joined.once('close', (code) => endExchange({ aborted: code === abnormalClosure }))
    })
    return true
  }
}
