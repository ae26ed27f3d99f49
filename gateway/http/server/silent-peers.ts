import { createReadStream } from 'node:fs'
import { isIPv4, type Socket } from 'node:net'
import { endianness } from 'node:os'
import { guarded } from '../../base/fault/guarded.ts'
import { inSlices } from '../../base/lib/in-slices.ts'
import { tunnelUpstreamOf } from '../socket/transport.ts'
import { readGroups } from '../upstream/embedded-address.ts'

/** Checks within the time-out. One costs 7 µs of processor time for each connection of the machine. */
const checks = 2

/** TCP connections of this network namespace (proc(5)). Systems without these tables are not checked. */
const tables = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

export type Busy = Readonly<{ socket: Socket; work: object }>

type Mark = Readonly<{ unacknowledged: number; count: number }>

/**
 * Calls back for each connection whose peer, or whose tunnel's upstream, has acknowledged nothing for this long. The system
 * retransmits to a vanished peer for a quarter of an hour (tcp_retries2), keep-alive probes wait behind that, and Node
 * has no TCP_USER_TIMEOUT. Only exchanges that last are checked, since others end by themselves. Of these, only
 * connections with unacknowledged writes: thousands of idle ones cost nothing. Returns a function that stops the watch.
 */
export function watchSilentPeers(
  listBusy: () => Iterable<Busy>,
  idleMs: number,
  onSilent: (socket: Socket) => void,
): () => void {
  const marks = new WeakMap<Socket, Mark>()
  const acknowledged = new WeakMap<Socket, number>()
  let known = new WeakSet<object>()
  let isChecking = false
  const isSilent = (socket: Socket, unacknowledged: number): boolean => {
    const mark = marks.get(socket)
    const count = mark && unacknowledged >= mark.unacknowledged ? mark.count + 1 : 0
    if (unacknowledged === 0) marks.delete(socket)
    else marks.set(socket, { unacknowledged, count })
    return unacknowledged > 0 && count >= checks
  }
  const isSideSilent = ({ socket, bytes }: Side, { ports, counts }: Unacknowledged): boolean => {
    // A key of the whole connection costs a hundred times as much as its port.
    const unacknowledged = ports.has(socket.remotePort ?? 0) ? counts.get(keyOf(socket)) : undefined
    if (unacknowledged === undefined) acknowledged.set(socket, bytes)
    return isSilent(socket, unacknowledged ?? 0)
  }
  const mayBeOwed = (socket: Socket): boolean => socket.bytesWritten > (acknowledged.get(socket) ?? 0)
  const listLasting = async (): Promise<readonly Lasting[]> => {
    const lasting: Lasting[] = []
    const owed = new WeakSet<object>()
    await inSlices(listBusy(), ({ socket, work }) => {
      const upstream = tunnelUpstreamOf(socket)
      if (!mayBeOwed(socket) && !(upstream && mayBeOwed(upstream))) return
      owed.add(work)
      if (known.has(work)) lasting.push({ socket, sides: listSides(socket) })
    })
    known = owed
    return lasting
  }
  const check = async (): Promise<void> => {
    if (isChecking) return
    isChecking = true
    try {
      // Their bytes are counted before the tables are read: those written meanwhile are not acknowledged yet.
      const lasting = await listLasting()
      if (lasting.length === 0) return
      const table = await readUnacknowledged()
      await inSlices(lasting, ({ socket, sides }) => {
        const isAnySilent = sides.map((side) => isSideSilent(side, table)).includes(true)
        if (isAnySilent && !socket.destroyed) onSilent(socket)
      })
    } finally {
      isChecking = false
    }
  }
  const timer = setInterval(guarded('timer', check), Math.max(1, idleMs / checks))
  timer.unref()
  return () => clearInterval(timer)
}

type Side = Readonly<{ socket: Socket; bytes: number }>

type Lasting = Readonly<{ socket: Socket; sides: readonly Side[] }>

function listSides(socket: Socket): readonly Side[] {
  const upstream = tunnelUpstreamOf(socket)
  return (upstream ? [socket, upstream] : [socket]).map((side) => ({ socket: side, bytes: side.bytesWritten }))
}

type Unacknowledged = Readonly<{ ports: ReadonlySet<number>; counts: ReadonlyMap<string, number> }>

async function readUnacknowledged(): Promise<Unacknowledged> {
  const counts = new Map<string, number>()
  const ports = new Set<number>()
  for (const table of tables) {
    let rest = ''
    try {
      for await (const chunk of createReadStream(table, 'latin1')) {
        const lines = `${rest}${chunk}`.split('\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const connection = readConnection(line)
          if (!connection) continue
          counts.set(connection.key, connection.unacknowledged)
          ports.add(Number.parseInt(connection.key.slice(connection.key.lastIndexOf(':') + 1), 16))
        }
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
  }
  return { ports, counts }
}

/**
 * Reads a line of the system's table: both ends, and unacknowledged transmissions. Undefined where none are pending.
 */
export function readConnection(line: string): Readonly<{ key: string; unacknowledged: number }> | undefined {
  // Timer 01 is retransmission, 04 the probe of a closed window. Other timers await no acknowledgement.
  if (!line.includes(' 01:') && !line.includes(' 04:')) return undefined
  const [, local, remote, , , , retransmits = '', , probes = ''] = line.trim().split(/ +/, 9)
  const unacknowledged = Number.parseInt(retransmits, 16) + Number.parseInt(probes, 10)
  return { key: `${local} ${remote}`, unacknowledged }
}

const keyOf = ({ localAddress, localPort, remoteAddress, remotePort }: Socket): string =>
  `${toHex(localAddress)}:${toPort(localPort)} ${toHex(remoteAddress)}:${toPort(remotePort)}`

const toPort = (port = 0): string => hex(port, 4)

/** In the format of the system: 32-bit numbers in host byte order. */
function toHex(text = ''): string {
  const [address = ''] = text.split('%')
  const bytes = isIPv4(address)
    ? address.split('.').map(Number)
    : readGroups(address).flatMap((group) => [group >> 8, group & 0xff])
  const words: string[] = []
  for (let at = 0; at < bytes.length; at += 4) {
    const word = bytes.slice(at, at + 4).map((byte) => hex(byte, 2))
    words.push((endianness() === 'LE' ? word.reverse() : word).join(''))
  }
  return words.join('')
}

const hex = (value: number, digits: number): string => value.toString(16).toUpperCase().padStart(digits, '0')
