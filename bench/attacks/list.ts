import { readFileSync } from 'node:fs'
import { anyPort, type SetUp } from '../compare/configure.ts'
import type { Order } from './order.ts'

/** An attack that has stopped a gateway before, at ten times the rate that it took for that. */
export type Attack = Readonly<{
  name: string
  what: string
  settings?: SetUp['settings']
  /** The behaviour of a tenant's cluster; with `blank-lines`, of the agents' upstream. */
  cluster?: 'interim' | 'silent' | 'blank-lines'
  /** Whether others come for the first time, and are not known to any cache. */
  areOthersNew?: true
  order: Pick<Order, 'kind' | 'connections' | 'perSecond'>
}>

/** Every attacker has several of these. */
export const attackerAddresses = Array.from({ length: 8 }, (_, index) => `127.0.0.${index + 2}`)

/** The limit of the gateway, within this machine's limit of descriptors. A connection may take two. */
const maxConnections = Math.min(10_000, Math.floor((readDescriptorLimit() - 400) / 2))

/** Nine in ten. A tenth of the attack comes before it, and a gateway that reads nothing of it cannot see that it has gone. */
const heldConnections = Math.floor((0.9 * maxConnections) / 1.1)

export const attacks: readonly Attack[] = [
  {
    name: 'line-ends',
    what: '50 connections at once, again and again, with 80,000 line ends before a request',
    order: { kind: 'line ends', connections: 50 },
  },
  {
    name: 'interim',
    what: 'a cluster that answers with 16,000 heads of 102 at once, asked ten at once, again and again',
    cluster: 'interim',
    order: { kind: 'requests', connections: 10 },
  },
  {
    name: 'interim-workers',
    what: 'the same, and two workers',
    settings: { workers: 2 },
    cluster: 'interim',
    order: { kind: 'requests', connections: 10 },
  },
  {
    name: 'paths',
    what: '300 paths of 8 KiB a second, with as many readings as there can be',
    order: { kind: 'targets', connections: 50, perSecond: 300 },
  },
  {
    name: 'read-ahead',
    what: `${heldConnections} connections of ${maxConnections}, full of requests behind a cluster that does not answer`,
    settings: {
      listeners: {
        public: { ...anyPort, maxConnections },
        decision: { ...anyPort, maxConnections: 10 },
        admin: { ...anyPort, maxConnections: 50 },
      },
    },
    cluster: 'silent',
    order: { kind: 'read-ahead', connections: heldConnections },
  },
  {
    name: 'chunks',
    what: '40 uploads behind a 401, again and again, in chunks of one byte, as fast as they are taken',
    order: { kind: 'chunks', connections: 40 },
  },
  {
    name: 'blank-lines',
    what: '10 streams of a model at once, each with 0.8 MB of blank lines a second',
    cluster: 'blank-lines',
    order: { kind: 'streams', connections: 10 },
  },
  {
    name: 'notifications',
    what: '10,000 notifications a second of a login without any right, that everything changed and of no meaning',
    order: { kind: 'notifications', connections: 1, perSecond: 10_000 },
  },
  {
    name: 'guesses',
    what: '20,000 tokens a second that could be some, of eight addresses',
    areOthersNew: true,
    order: { kind: 'guesses', connections: 200, perSecond: 20_000 },
  },
]

function readDescriptorLimit(): number {
  const [, hard = ''] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
  return Number(hard) || 1_000_000
}
