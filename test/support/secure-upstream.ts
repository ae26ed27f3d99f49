import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import type { TLSSocket, TlsOptions } from 'node:tls'
import type { Issued } from './certificates.ts'
import type { AnswerHttp } from './http-upstream.ts'
import type { Owner } from './owner.ts'
import { switching } from './websocket.ts'

/** One connection as its server sees it: the name from SNI, and the client's certificate. */
export type SecureVisit = Readonly<{ socket: TLSSocket; serverName: string | false; clientSerial: string | undefined }>

export type SecureUpstream = Readonly<{ url: string; port: number; visits: () => readonly SecureVisit[] }>

/** An upstream on node:https that answers as it is told to, and switches to an echo where it is asked for WebSocket. */
export async function startSecureUpstream(
  owner: Owner,
  own: Pick<Issued, 'cert' | 'key'>,
  answer: AnswerHttp,
  options: TlsOptions = {},
): Promise<SecureUpstream> {
  const visits: SecureVisit[] = []
  const server = createServer(
    { cert: own.cert, key: own.key, keepAliveTimeout: 60_000, ...options },
    (request, response) => {
      request.on('error', () => {})
      response.on('error', () => {})
      answer(request, response)
    },
  )
  const open = new Set<Socket>()
  server.on('connection', (socket: Socket) => open.add(socket))
  server.on('secureConnection', (socket: TLSSocket) => {
    const clientSerial = socket.getPeerX509Certificate()?.serialNumber
    visits.push({ socket, serverName: socket.servername ?? false, clientSerial })
  })
  server.on('tlsClientError', () => {})
  server.on('upgrade', (_request, socket) => {
    socket.on('error', () => {})
    socket.write(switching)
    socket.on('data', (chunk: Buffer) => void socket.write(`heard ${chunk.toString()}`))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  owner.teardown(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return { url: `https://localhost:${port}`, port, visits: () => visits }
}
