import { guarded } from '../../fault/guarded.ts'
import type { ReceivedLogout } from '../logout.ts'

export type LogoutWriterOptions = Readonly<{
  write: (logouts: readonly ReceivedLogout[]) => Promise<void>
  onFailed: (error: unknown) => void
}>

const retryMs = 1_000

const batchSize = 100

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
    if (this.#unstored.size > mostUnstored) this.#widen(issuer)
  }

  #widen(issuer: string): void {
    const own = [...this.#unstored].filter(([, logout]) => logout.issuer === issuer)
    for (const [key] of own) this.#unstored.delete(key)
    const everyone = own.map(([, logout]) => logout).reduce(latest)
    this.#note({ ...everyone, subject: '', session: '' })
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
    this.#retry = setTimeout(guarded('timer', retry), retryMs).unref()
  }
}

const latest = (one: ReceivedLogout, other: ReceivedLogout): ReceivedLogout => ({
  ...(other.at > one.at ? other : one),
  expiresAt: Math.max(one.expiresAt, other.expiresAt),
})
