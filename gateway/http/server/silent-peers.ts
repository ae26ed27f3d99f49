import { createReadStream } from 'node:fs'
import { isIPv4, type Socket } from 'node:net'
import { endianness } from 'node:os'
import { guarded } from '../../fault/guarded.ts'
import { partnerOf } from '../socket/transport.ts'
import { readGroups } from '../upstream/embedded-address.ts'

/** Checks of a silent peer within the whole time. One costs 7 µs of processor time for each connection of the machine. */
const checks = 2

/** The TCP connections of this network namespace (proc(5)). A system without these tables is not looked at. */
const tables = ['/proc/self/net/tcp', '/proc/self/net/tcp6']

/** A connection, and its exchange. */
export type Busy = Readonly<{ socket: Socket; work: object }>

/** How often in a row the system had sent without an answer at the last check, and how many checks before it began. */
type Mark = Readonly<{ unacknowledged: number; count: number }>

/**
 * Calls back for each connection whose peer, or the peer of the connection that it was joined to, has acknowledged nothing
 * for so long of what the system sent again and again. Such a peer is gone without a word; the system itself gives it up
 * after a quarter of an hour (tcp_retries2), its probes wait behind what is not acknowledged, and Node has no
 * TCP_USER_TIMEOUT. Only exchanges that last are looked at: any other ends by itself. Of these, only connections that were
 * written to since all was acknowledged: thousands that only wait cost nothing. Returns what ends the watch.
 */
export function watchSilentPeers(
  visitBusy: (visit: (busy: Busy) => void) => void,
  idleMs: number,
  onSilent: (socket: Socket) => void,
): () => void {
  const marks = new WeakMap<Socket, Mark>()
  /** How much had been written to a connection when all of it was acknowledged. */
  const acknowledged = new WeakMap<Socket, number>()
  let known = new WeakSet<object>()
  let isChecking = false
  const isSilent = (socket: Socket, unacknowledged: number): boolean => {
    const mark = marks.get(socket)
    // An acknowledgement begins the count anew.
    const count = mark && unacknowledged >= mark.unacknowledged ? mark.count + 1 : 0
    if (unacknowledged === 0) marks.delete(socket)
    else marks.set(socket, { unacknowledged, count })
    return unacknowledged > 0 && count >= checks
  }
  const isSideSilent = ({ socket, bytes }: Side, { ports, counts }: Unacknowledged): boolean => {
    // A name of the whole connection costs a hundred times as much as its port.
    const unacknowledged = ports.has(socket.remotePort ?? 0) ? counts.get(keyOf(socket)) : undefined
    if (unacknowledged === undefined) acknowledged.set(socket, bytes)
    return isSilent(socket, unacknowledged ?? 0)
  }
  const mayBeOwed = (socket: Socket): boolean => socket.bytesWritten > (acknowledged.get(socket) ?? 0)
  const listLasting = (): readonly Socket[] => {
    const lasting: Socket[] = []
    const owed = new WeakSet<object>()
    visitBusy(({ socket, work }) => {
      const partner = partnerOf(socket)
      if (!mayBeOwed(socket) && !(partner && mayBeOwed(partner))) return
      owed.add(work)
      if (known.has(work)) lasting.push(socket)
    })
    known = owed
    return lasting
  }
  const check = async (): Promise<void> => {
    if (isChecking) return
    const lasting = listLasting()
    if (lasting.length === 0) return
    isChecking = true
    try {
      // Before the system is asked: a byte that is written meanwhile is not acknowledged yet.
      const connections = lasting.map((socket) => ({ socket, sides: listSides(socket) }))
      const table = await readUnacknowledged()
      for (const { socket, sides } of connections) {
        const isAnySilent = sides.map((side) => isSideSilent(side, table)).includes(true)
        if (isAnySilent && !socket.destroyed) onSilent(socket)
      }
    } finally {
      isChecking = false
    }
  }
  const timer = setInterval(guarded('timer', check), Math.max(1, idleMs / checks))
  timer.unref()
  return () => clearInterval(timer)
}

/** One end of a connection, or of the one that it was joined to, and how much had been written to it. */
type Side = Readonly<{ socket: Socket; bytes: number }>

function listSides(socket: Socket): readonly Side[] {
  const partner = partnerOf(socket)
  return (partner ? [socket, partner] : [socket]).map((side) => ({ socket: side, bytes: side.bytesWritten }))
}

type Unacknowledged = Readonly<{ ports: ReadonlySet<number>; counts: ReadonlyMap<string, number> }>

/**
 * How often in a row the system sent bytes or probes without an acknowledgement, by connection; none where nothing
 * waits for one. With the ports of the peers.
 */
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

/** One line of the system's table, if it waits for an acknowledgement: both ends, and how often in a row none came. */
export function readConnection(line: string): Readonly<{ key: string; unacknowledged: number }> | undefined {
  // The timers of retransmissions, and of probes of a closed window; others wait for nothing that was sent.
  if (!line.includes(' 01:') && !line.includes(' 04:')) return undefined
  const [, local, remote, , , , retransmits = '', , probes = ''] = line.trim().split(/ +/, 9)
  const unacknowledged = Number.parseInt(retransmits, 16) + Number.parseInt(probes, 10)
  return { key: `${local} ${remote}`, unacknowledged }
}

const keyOf = ({ localAddress, localPort, remoteAddress, remotePort }: Socket): string =>
  `${toHex(localAddress)}:${toPort(localPort)} ${toHex(remoteAddress)}:${toPort(remotePort)}`

const toPort = (port = 0): string => hex(port, 4)

/** As the table has it: numbers of 32 bits in the order of this machine. */
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
