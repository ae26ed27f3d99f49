import { Socket } from 'node:net'

/** One connection through the proxy, as the hook sees it. */
export type TcpLink = Readonly<{
  /** In the order of connecting, from 0. */
  index: number
  /** Lets what was held go on, and all that follows. */
  release: () => void
}>

/** Sees each chunk from the server; from a `hold` on, that connection's server is not heard until it is released. */
export type HearServer = (bytes: Buffer, link: TcpLink) => 'pass' | 'hold' | 'drop'

/** The target of a wire, and its listeners. */
export type WireEnd = Readonly<{
  host?: string
  port: number
  hearServer?: HearServer
  /** Is told of each chunk from a client. */
  hearClient?: (bytes: Buffer) => void
}>

/** A client's connection, joined to the one to the server. */
export type Wire = Readonly<{ freeze: () => void; thaw: () => void; cut: () => void }>

/** Leads a client's connection on to the server; a wire that is born frozen connects when it thaws. */
export function joinWire(client: Socket, end: WireEnd, index: number): Wire {
  const { host = '127.0.0.1', port, hearServer, hearClient } = end
  // Half-open: a side that has said all it had to say may still be told something.
  const server = new Socket({ allowHalfOpen: true })
  const request = openLane(client, server, (bytes) => {
    hearClient?.(bytes)
    return 'pass'
  })
  const answer = openLane(server, client, (bytes) => hearServer?.(bytes, { index, release: answer.release }) ?? 'pass')
  let isFrozen = false
  let isConnecting = false
  const breaks: (() => void)[] = []
  for (const [socket, other] of [
    [client, server],
    [server, client],
  ] as const) {
    socket.setNoDelay(true)
    socket.on('error', () => {}) // The close that follows says all.
    socket.on('close', (isBroken) => {
      if (!isBroken) return // Both ends were passed on.
      if (isFrozen) breaks.push(() => reset(other))
      else reset(other)
    })
  }
  const thaw = (): void => {
    isFrozen = false
    if (!isConnecting) server.connect(port, host)
    isConnecting = true
    request.go()
    answer.go()
    for (const pass of breaks.splice(0)) pass()
  }
  return {
    freeze: () => {
      isFrozen = true
      request.stop()
      answer.stop()
    },
    thaw,
    cut: () => {
      reset(client)
      reset(server)
    },
  }
}

/**
 * Ends a connection by RST. One that is just closing is closed instead. Node 20 loses a socket that is reset while its
 * FIN is on the way, and then the process never ends.
 */
function reset(socket: Socket): void {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy()
  else socket.resetAndDestroy()
}

type Lane = Readonly<{ go: () => void; stop: () => void; release: () => void }>

/** Carries one direction's bytes and its end, at the pace of the receiver; it starts stopped. */
function openLane(from: Socket, to: Socket, hear: (bytes: Buffer) => 'pass' | 'hold' | 'drop' = () => 'pass'): Lane {
  const held: Buffer[] = []
  let isHeld = false
  let isStopped = true
  let hasEnded = false
  const move = (): void => {
    if (isStopped || to.writableNeedDrain) from.pause()
    else from.resume()
  }
  from.on('data', (bytes) => {
    const verdict = hear(bytes)
    if (verdict === 'hold') isHeld = true
    if (verdict === 'drop') return
    if (isHeld) held.push(bytes)
    else to.write(bytes)
    move()
  })
  from.on('end', () => {
    hasEnded = true
    if (!isHeld) to.end()
  })
  to.on('drain', move)
  from.pause()
  return {
    go: () => {
      isStopped = false
      move()
    },
    stop: () => {
      isStopped = true
      move()
    },
    release: () => {
      isHeld = false
      for (const bytes of held.splice(0)) to.write(bytes)
      if (hasEnded) to.end()
    },
  }
}
