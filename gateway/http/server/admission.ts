import type { Socket } from 'node:net'
import { guarded } from '../../base/fault/guarded.ts'
import { LinkedList } from '../../base/lib/linked-list.ts'
import { readNetwork } from '../../base/network/network.ts'

/** Beyond this part of the places, a client's address gives way before others do. */
const shareOfOne = 1 / 4

/** No address has more than this part, so that requests that it keeps in flight leave places to others. */
const mostOfOne = 3 / 4

/** Part of the places that strangers never take, once an address is known. */
const keptPart = 1 / 4

/** Issuers send from a few addresses. A message of a week ago still tells that its address is theirs. */
const mostKnown = 1_000
const knownMs = 7 * 24 * 3_600_000

const stateNames = ['unproven', 'taking', 'idle'] as const

type Waiting = (typeof stateNames)[number]

type Entry = { previous: Entry | undefined; next: Entry | undefined; readonly place: ConnectionPlace }

type Lists = Readonly<Record<Waiting, LinkedList<Entry>>>

type Network = { readonly name: string; count: number; isKnown: boolean; readonly lists: Lists }

const createLists = (): Lists => ({
  unproven: new LinkedList<Entry>(),
  taking: new LinkedList<Entry>(),
  idle: new LinkedList<Entry>(),
})

const createEntry = (place: ConnectionPlace): Entry => ({ previous: undefined, next: undefined, place })

/** The place of one connection, in a state of the table below. */
export class ConnectionPlace {
  readonly network: Network
  state: Waiting | 'busy' | 'left' = 'busy'
  /** Counts the changes of all places, so that a lower number is the older one. */
  since = 0
  readonly ofAll = createEntry(this)
  readonly ofNetwork = createEntry(this)
  readonly #admission: Admission
  #close: () => void

  constructor(admission: Admission, network: Network, close: () => void) {
    this.#admission = admission
    this.network = network
    this.#close = close
  }

  /** The connection that now owns the socket. */
  join(connection: Readonly<{ destroy: () => void }>): void {
    this.#close = () => connection.destroy()
  }

  begin(): void {
    this.#admission.move(this, 'busy')
  }

  /** The whole response was handed over, and may wait for its client. */
  answered(): void {
    if (this.state === 'busy') this.#admission.move(this, 'taking')
  }

  /** Nothing is in flight any more. A request that never became whole proves nothing. */
  rest(): void {
    if (this.state === 'busy' || this.state === 'taking') this.#admission.move(this, 'idle')
  }

  leave(): void {
    this.#admission.move(this, 'left')
  }

  close(): void {
    this.leave()
    this.#close()
  }
}

export type AdmissionOptions = Readonly<{
  limit: number
  onDropped: (reason: 'limit' | 'displaced') => void
  monotonicMs: () => number
}>

/**
 * Chooses which connection of a full listener goes, where its callers matter more than the crowd.
 *
 * | State    | The connection                            | Goes for a newcomer                                      |
 * |----------|-------------------------------------------|----------------------------------------------------------|
 * | unproven | brought no whole request yet              | first, the oldest before the newest                      |
 * | taking   | has not taken a whole response yet        | then, the oldest first: a client may never take it       |
 * | idle     | brought some, and none is in flight       | then, first the one whose latest ended the longest ago   |
 * | busy     | brought a whole request that is in flight | never                                                    |
 *
 * Of two connections in one state, that of an address beyond its share goes first. Newcomers of such an address take its
 * own places before those of others. So a crowd displaces itself, and a caller that is slower keeps its place.
 */
export class Admission {
  readonly #options: AdmissionOptions
  readonly #places = new WeakMap<Socket, ConnectionPlace>()
  readonly #networks = new Map<string, Network>()
  readonly #greedy = new Set<Network>()
  readonly #known = new Map<string, number>()
  readonly #lists = createLists()
  #count = 0
  #knownCount = 0
  #changes = 0

  constructor(options: AdmissionOptions) {
    this.#options = options
  }

  /** False if the connection was closed, since nothing could give way to it. */
  admit(socket: Socket): boolean {
    const name = readNetwork(socket.remoteAddress ?? '')
    const network = this.#networks.get(name) ?? {
      ...{ name, count: 0, isKnown: this.#isKnown(name), lists: createLists() },
    }
    const isFull = this.#isFullFor(network)
    const victim = isFull ? this.#chooseVictim(network) : undefined
    if (isFull && !victim) {
      this.#options.onDropped('limit')
      socket.destroy()
      return false
    }
    if (victim) {
      this.#options.onDropped('displaced')
      victim.close()
    }
    // Only now: the victim may have been the last connection of this network, which then was forgotten.
    this.#networks.set(name, network)
    const place = new ConnectionPlace(this, network, () => socket.destroy())
    this.#places.set(socket, place)
    this.#resize(network, 1)
    this.move(place, 'unproven')
    socket.once(
      'close',
      guarded('client', () => place.leave()),
    )
    return true
  }

  placeOf(socket: Socket): ConnectionPlace | undefined {
    return this.#places.get(socket)
  }

  /** Keeps places for an address whose message was authentic and new. */
  keepPlacesFor(address: string): void {
    const name = readNetwork(address)
    this.#known.delete(name)
    this.#known.set(name, this.#options.monotonicMs())
    const [oldest] = this.#known.keys()
    if (this.#known.size > mostKnown && oldest !== undefined) this.#known.delete(oldest)
    const network = this.#networks.get(name)
    if (!network || network.isKnown) return
    network.isKnown = true
    this.#knownCount += network.count
  }

  move(place: ConnectionPlace, state: ConnectionPlace['state']): void {
    if (place.state === 'left' || place.state === state) return
    const { network, ofAll, ofNetwork } = place
    if (place.state !== 'busy') {
      this.#lists[place.state].remove(ofAll)
      network.lists[place.state].remove(ofNetwork)
    }
    place.state = state
    this.#changes += 1
    place.since = this.#changes
    if (state === 'left') this.#resize(network, -1)
    else if (state !== 'busy') {
      this.#lists[state].push(ofAll)
      network.lists[state].push(ofNetwork)
    }
  }

  #resize(network: Network, by: number): void {
    network.count += by
    this.#count += by
    if (network.isKnown) this.#knownCount += by
    if (network.count > this.#options.limit * shareOfOne) this.#greedy.add(network)
    else this.#greedy.delete(network)
    if (network.count === 0 && this.#networks.get(network.name) === network) this.#networks.delete(network.name)
  }

  #isKnown(name: string): boolean {
    const [oldest] = this.#known
    if (oldest && this.#options.monotonicMs() - oldest[1] > knownMs) this.#known.delete(oldest[0])
    return this.#known.has(name)
  }

  #isFullFor(network: Network): boolean {
    return this.#count >= this.#options.limit || this.#isAtMost(network) || this.#areKeptAlone(network)
  }

  #isAtMost({ count }: Network): boolean {
    return count >= Math.max(1, Math.floor(this.#options.limit * mostOfOne))
  }

  /** Whether a stranger would take a place that is kept for known addresses. */
  #areKeptAlone({ isKnown }: Network): boolean {
    if (isKnown || this.#known.size === 0) return false
    const { limit } = this.#options
    return this.#count - this.#knownCount >= Math.max(1, limit - Math.floor(limit * keptPart))
  }

  #chooseVictim(network: Network): ConnectionPlace | undefined {
    const own = (state: Waiting): ConnectionPlace | undefined => network.lists[state].first?.place
    if (this.#isAtMost(network)) return own('unproven') ?? own('taking') ?? own('idle')
    const mayGo = this.#areKeptAlone(network) ? isStranger : isAny
    const greedy = (state: Waiting): ConnectionPlace | undefined => this.#oldestOfGreedy(state, mayGo)
    const any = (state: Waiting): ConnectionPlace | undefined => findFirst(this.#lists[state], mayGo)
    // Its own before a slow caller's, and never a connection that another address has used.
    if (this.#greedy.has(network))
      return own('unproven') ?? greedy('unproven') ?? own('taking') ?? own('idle') ?? any('unproven')
    const first = greedy('unproven') ?? any('unproven') ?? greedy('taking') ?? any('taking')
    return first ?? greedy('idle') ?? any('idle')
  }

  #oldestOfGreedy(state: Waiting, mayGo: (place: ConnectionPlace) => boolean): ConnectionPlace | undefined {
    let oldest: ConnectionPlace | undefined
    for (const { lists } of this.#greedy) {
      const place = lists[state].first?.place
      if (place && mayGo(place) && (!oldest || place.since < oldest.since)) oldest = place
    }
    return oldest
  }
}

const isAny = (): boolean => true

const isStranger = ({ network }: ConnectionPlace): boolean => !network.isKnown

function findFirst(list: LinkedList<Entry>, mayGo: (place: ConnectionPlace) => boolean): ConnectionPlace | undefined {
  for (let entry = list.first; entry; entry = entry.next) if (mayGo(entry.place)) return entry.place
  return undefined
}
