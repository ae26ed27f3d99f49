import { guarded } from '../../base/fault/guarded.ts'
import { logoutRetryMs } from '../../rights/paces.ts'
import type { ReceivedLogout } from '../logout.ts'

export type LogoutWriterOptions = Readonly<{
  write: (logouts: readonly ReceivedLogout[]) => Promise<void>
  onFailed: (error: unknown) => void
}>

/** One statement writes as many, so that a flood of logouts takes few round trips and none is long. */
const batchSize = 100

/** While the database is away. Beyond it those of one issuer become one for all its logins. */
const mostUnstored = 10_000

export class LogoutWriter {
  readonly #options: LogoutWriterOptions
  #unstored = new Map<string, ReceivedLogout>()
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #isStopped = false

  constructor(options: LogoutWriterOptions) {
    this.#options = options
  }

  get unstored(): number {
    return this.#unstored.size
  }

  store(logout: ReceivedLogout): Promise<void> {
    this.#note(logout)
    return this.#writeSoon()
  }

  async stop(): Promise<void> {
    clearTimeout(this.#retry)
    if (this.#unstored.size > 0) await this.#writeSoon().catch(() => undefined)
    this.#isStopped = true
    clearTimeout(this.#retry)
  }

  #note(logout: ReceivedLogout): void {
    const { issuer, subject, session } = logout
    const key = JSON.stringify([issuer, subject, session])
    const known = this.#unstored.get(key)
    this.#unstored.set(key, known ? latest(known, logout) : logout)
    if (this.#unstored.size > mostUnstored) this.#widen()
  }

  #widen(): void {
    const [largest, ...others] = groupByIssuer(this.#unstored)
    if (!largest) return
    const own = others.reduce((one, other) => (other.size > one.size ? other : one), largest)
    for (const key of own.keys()) this.#unstored.delete(key)
    this.#note({ ...[...own.values()].reduce(latest), subject: '', session: '' })
  }

  #writeSoon(): Promise<void> {
    if (!this.#running) return this.#write()
    const after = this.#running.catch(() => undefined)
    this.#next ??= after.then(() => {
      this.#next = undefined
      return this.#write()
    })
    return this.#next
  }

  #write(): Promise<void> {
    this.#running = this.#writeAll().finally(() => {
      this.#running = undefined
    })
    return this.#running
  }

  async #writeAll(): Promise<void> {
    clearTimeout(this.#retry)
    try {
      const waiting = [...this.#unstored]
      for (let from = 0; from < waiting.length; from += batchSize) {
        const batch = waiting.slice(from, from + batchSize)
        await this.#options.write(batch.map(([, logout]) => logout))
        for (const [key, logout] of batch) if (this.#unstored.get(key) === logout) this.#unstored.delete(key)
      }
    } catch (error) {
      this.#options.onFailed(error)
      this.#retryLater()
      throw error
    }
  }

  #retryLater(): void {
    if (this.#isStopped) return
    clearTimeout(this.#retry)
    const retry = (): void => void this.#writeSoon().catch(() => undefined)
    this.#retry = setTimeout(guarded('timer', retry), logoutRetryMs).unref()
  }
}

function groupByIssuer(logouts: ReadonlyMap<string, ReceivedLogout>): readonly Map<string, ReceivedLogout>[] {
  const groups = new Map<string, Map<string, ReceivedLogout>>()
  for (const [key, logout] of logouts) {
    const group = groups.get(logout.issuer) ?? new Map<string, ReceivedLogout>()
    groups.set(logout.issuer, group.set(key, logout))
  }
  return [...groups.values()]
}

const latest = (one: ReceivedLogout, other: ReceivedLogout): ReceivedLogout => ({
  ...(other.at > one.at ? other : one),
  expiresAt: Math.max(one.expiresAt, other.expiresAt),
})
