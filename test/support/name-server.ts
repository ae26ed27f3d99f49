import { spawnSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Owner } from './owner.ts'

/** The reason to skip, or undefined. */
export const nameServerLack: string | undefined =
  process.getuid?.() === 0 && spawnSync('unshare', ['--mount', 'true']).status === 0
    ? undefined
    : 'only root may listen on port 53 and mount another /etc/resolv.conf'

export type NameServer = Readonly<{
  /** The beginning of a command, so that its program resolves names here. */
  command: readonly string[]
  /** Sets the address of a name; without one the name does not exist. */
  set: (name: string, address: string | undefined) => void
  /** Stops the answers, for all names or for some, or resumes them. */
  silence: (isSilent: boolean | ((name: string) => boolean)) => void
  /** Sets the time that each answer takes from now on. */
  delay: (ms: number) => void
  /** The names that were asked for; IPv4 and IPv6 are a question each. */
  asked: () => readonly string[]
}>

/** The count of servers. Each has a loopback address of its own, since resolv.conf knows port 53 alone. */
let servers = 0

/** A name server on UDP, real to the system's resolver (RFC 1035, 4). */
export async function startNameServer(owner: Owner): Promise<NameServer> {
  const host = `127.53.${(process.pid >> 6) & 0xff}.${((process.pid & 0x3f) << 2) + ++servers}`
  const addresses = new Map<string, string>()
  const asked: string[] = []
  let isSilent: (name: string) => boolean = () => false
  let delayMs = 0
  const waiting = new Set<NodeJS.Timeout>()
  const socket = createSocket('udp4')
  socket.on('message', (question, { address, port }) => {
    const { name, type, end } = readQuestion(question)
    asked.push(name)
    if (isSilent(name)) return
    const answer = composeAnswer(question.subarray(0, end), type, addresses.get(name))
    if (delayMs === 0) socket.send(answer, port, address)
    else waiting.add(setTimeout(() => socket.send(answer, port, address), delayMs))
  })
  socket.bind(53, host)
  await once(socket, 'listening')
  owner.teardown(() => {
    for (const timer of waiting) clearTimeout(timer)
    socket.close()
  })
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-names-'))
  owner.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'resolv.conf')
  writeFileSync(file, `nameserver ${host}\noptions timeout:1 attempts:2\n`)
  const mount = `mount --bind ${file} /etc/resolv.conf && exec "$0" "$@"`
  return {
    command: ['unshare', '--mount', 'sh', '-c', mount],
    set: (name, found) => void (found === undefined ? addresses.delete(name) : addresses.set(name, found)),
    silence: (told) => {
      isSilent = typeof told === 'boolean' ? () => told : told
    },
    delay: (ms) => {
      delayMs = ms
    },
    asked: () => asked,
  }
}

function readQuestion(message: Buffer): Readonly<{ name: string; type: number; end: number }> {
  const labels: string[] = []
  let at = 12
  for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
    labels.push(message.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.').toLowerCase(), type: message.readUInt16BE(at + 1), end: at + 5 }
}

const typeA = 1

/** Answers with IPv4 addresses alone; a name without one does not exist. */
function composeAnswer(question: Buffer, type: number, address: string | undefined): Buffer {
  const records = address !== undefined && type === typeA ? [composeRecord(address)] : []
  const head = Buffer.from(question)
  head.writeUInt16BE(address === undefined ? 0x81_83 : 0x81_80, 2)
  head.writeUInt16BE(records.length, 6)
  head.writeUInt32BE(0, 8)
  return Buffer.concat([head, ...records])
}

/** Points to the name of the question, with a lifetime of 0 (RFC 1035, 4.1.3). */
const composeRecord = (address: string): Buffer =>
  Buffer.from([0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)])
