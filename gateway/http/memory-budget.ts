import { type Slot, UnorderedList } from '../base/lib/unordered-list.ts'
import { readNetwork } from '../base/network/network.ts'
import type { MemoryAccount } from './exchange.ts'
import { relieveGreediest } from './relieve-greediest.ts'

const pressedPart = 1 / 2

/** Share down to which connections are cut, so that not every later read cuts one more. */
const relievedPart = 7 / 8

type Holder = Readonly<{ relieve: () => void }>

class Group {
  heldBytes = 0
  connections = 0
  readonly key: string | number

  constructor(key: string | number) {
    this.key = key
  }
}

class Groups {
  holding = 0
  readonly #byKey = new Map<string | number, Group>()

  get size(): number {
    return this.#byKey.size
  }

  join(key: string | number): Group {
    let group = this.#byKey.get(key)
    if (!group) {
      group = new Group(key)
      this.#byKey.set(key, group)
    }
    group.connections += 1
    return group
  }

  leave(group: Group): void {
    group.connections -= 1
    if (group.connections === 0) this.#byKey.delete(group.key)
  }

  change(group: Group, bytes: number): void {
    if (group.heldBytes === 0 && bytes > 0) this.holding += 1
    group.heldBytes += bytes
    if (group.heldBytes === 0 && bytes < 0) this.holding -= 1
  }
}

/**
 * Bytes buffered for slow peers in this process: pipelined requests, bodies, responses and unfinished events. Any
 * connection may use the first half of the budget. Beyond it, connections of a network or organization above its equal
 * share are read in small pieces. At the limit, the largest connections of the largest group are cut, so that a crowd
 * of any size leaves room for others.
 */
export class MemoryBudget {
  readonly limitBytes: number
  heldBytes = 0
  readonly #pressedBytes: number
  readonly #accounts = new UnorderedList<ConnectionAccount>()
  readonly #networks = new Groups()
  readonly #organizations = new Groups()
  #isRelieving = false

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes
    this.#pressedBytes = limitBytes * pressedPart
  }

  open(address: string, holder: Holder): ConnectionAccount {
    const account = new ConnectionAccount(this, address, this.#networks.join(readNetwork(address)), holder)
    account.place = this.#accounts.add(account)
    return account
  }

  countGroups(): number {
    return this.#networks.size + this.#organizations.size
  }

  throttles({ network, organization }: ConnectionAccount): boolean {
    const pressedBytes = this.#pressedBytes
    if (this.heldBytes <= pressedBytes) return false
    if (network.heldBytes * this.#networks.holding > pressedBytes) return true
    return organization !== undefined && organization.heldBytes * this.#organizations.holding > pressedBytes
  }

  countThrottled(): number {
    let count = 0
    if (this.heldBytes <= this.#pressedBytes) return count
    this.#accounts.visit((account) => {
      if (account.heldBytes > 0 && this.throttles(account)) count += 1
    })
    return count
  }

  change({ network, organization }: ConnectionAccount, bytes: number): void {
    this.heldBytes += bytes
    this.#networks.change(network, bytes)
    if (organization) this.#organizations.change(organization, bytes)
    if (this.heldBytes > this.limitBytes && !this.#isRelieving) this.#relieve()
  }

  moveNetwork(account: ConnectionAccount, address: string): void {
    const network = this.#networks.join(readNetwork(address))
    this.#networks.change(network, account.heldBytes)
    this.#leave(this.#networks, account.network, account.heldBytes)
    account.network = network
  }

  moveOrganization(account: ConnectionAccount, id: number | undefined): void {
    const organization = id === undefined ? undefined : this.#organizations.join(id)
    if (organization) this.#organizations.change(organization, account.heldBytes)
    if (account.organization) this.#leave(this.#organizations, account.organization, account.heldBytes)
    account.organization = organization
  }

  close(account: ConnectionAccount): void {
    this.heldBytes -= account.heldBytes
    this.#leave(this.#networks, account.network, account.heldBytes)
    if (account.organization) this.#leave(this.#organizations, account.organization, account.heldBytes)
    if (account.place) this.#accounts.remove(account.place)
  }

  #leave(groups: Groups, group: Group, heldBytes: number): void {
    groups.change(group, -heldBytes)
    groups.leave(group)
  }

  #relieve(): void {
    this.#isRelieving = true
    try {
      relieveGreediest(
        this.#accounts,
        ({ network, organization }) => (organization ? [network, organization] : [network]),
        () => this.heldBytes <= this.limitBytes * relievedPart,
      )
    } finally {
      this.#isRelieving = false
    }
  }
}

export const freeAccount: MemoryAccount = {
  isThrottled: false,
  owner: 'gateway',
  fromAddress: () => undefined,
  forOrganization: () => undefined,
  hold: () => undefined,
  release: () => undefined,
  onRelief: () => undefined,
}

export class ConnectionAccount implements MemoryAccount {
  heldBytes = 0
  network: Group
  organization: Group | undefined
  place: Slot<ConnectionAccount> | undefined
  readonly #budget: MemoryBudget
  readonly #holder: Holder
  #address: string
  #organizationId: number | undefined
  #onRelief: (() => void) | undefined
  #isClosed = false

  constructor(budget: MemoryBudget, address: string, network: Group, holder: Holder) {
    this.#budget = budget
    this.#address = address
    this.network = network
    this.#holder = holder
  }

  get isThrottled(): boolean {
    return this.#budget.throttles(this)
  }

  get owner(): string | number {
    return (this.organization ?? this.network).key
  }

  fromAddress(address: string): void {
    if (address === this.#address || this.#isClosed) return
    this.#address = address
    this.#budget.moveNetwork(this, address)
  }

  forOrganization(id: number | undefined): void {
    if (id === this.#organizationId || this.#isClosed) return
    this.#organizationId = id
    this.#budget.moveOrganization(this, id)
  }

  hold(bytes: number): void {
    if (this.#isClosed || bytes === 0) return
    this.heldBytes += bytes
    this.#budget.change(this, bytes)
  }

  release(bytes: number): void {
    if (this.#isClosed || bytes === 0) return
    this.heldBytes -= bytes
    this.#budget.change(this, -bytes)
  }

  onRelief(listener: (() => void) | undefined): void {
    this.#onRelief = listener
  }

  relieve(): void {
    const { heldBytes } = this
    const listener = this.#onRelief
    this.#onRelief = undefined
    listener?.()
    if (listener && this.heldBytes <= heldBytes / 2) return
    this.close()
    this.#holder.relieve()
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#onRelief = undefined
    this.#budget.close(this)
    this.heldBytes = 0
  }
}
