import { loadConfiguration } from '../../gateway/configuration/configuration.ts'
import type { Engine } from '../../gateway/http/engine.ts'
import type { Exchange, RawHeaders, ResponseHead } from '../../gateway/http/exchange.ts'
import { freeAccount } from '../../gateway/http/memory-budget.ts'
import { startListeners } from '../../gateway/run/boot/gateway.ts'
import { createProcessContext } from '../../gateway/run/boot/process-context.ts'

/** Judges a request; resolves to the headers that are pinned to it, or undefined where it may not pass. */
export type Decide = (method: string, target: string, headers: RawHeaders) => Promise<RawHeaders | undefined>

/** The gateway's own decision without its engine: with its caches, its log line and its metrics, but no socket. */
export async function createDecide(configurationFile: string): Promise<Decide> {
  const configuration = loadConfiguration(configurationFile, process.env)
  const handlers: ((exchange: Exchange) => void)[] = []
  const engine: Engine = {
    listen: async (_options, handle) => {
      handlers.push(handle)
      return {
        address: { host: '127.0.0.1', port: 0 },
        replaceIdentity: () => undefined,
        countConnections: () => 0,
        keepPlacesFor: () => undefined,
        close: async () => undefined,
        destroy: () => undefined,
      }
    },
    send: async () => Promise.reject(new Error('nothing is sent')),
    readHeldMemory: () => ({ bytes: 0, throttledConnections: 0, heldReads: 0 }),
    countUpstreamConnections: () => new Map(),
    countDistrustedOrigins: () => 0,
    close: async () => undefined,
  }
  await startListeners(configuration, { ...createProcessContext(configuration), engine })
  // The public listener is opened first, and then that for decisions.
  const [, judge] = handlers
  if (!judge) throw new Error('there is no decision listener')
  return (method, target, headers) =>
    new Promise((resolve) => {
      const original = ['x-original-method', method, 'x-original-uri', target]
      judge(
        new AskedExchange([...headers, ...original], ({ status, headers }) =>
          resolve(status === 200 ? headers : undefined),
        ),
      )
    })
}

/** A question as the decision listener would get it. */
class AskedExchange implements Exchange {
  readonly method = 'GET'
  readonly target = '/authorize'
  readonly httpVersion = '1.1'
  readonly headers: RawHeaders
  readonly peerAddress = '127.0.0.1'
  readonly isEncrypted = false
  readonly clientCertificate = undefined
  readonly isHandshake = false
  readonly account = freeAccount
  readonly passedBytes = { received: 0, sent: 0 }
  readonly body = {
    length: 0,
    read: async () => Buffer.alloc(0),
    begin: () => undefined,
    cancel: () => undefined,
  }
  readonly #onAnswer: (head: ResponseHead) => void
  readonly #listeners: ((isComplete: boolean) => void)[] = []
  status = 0

  constructor(headers: RawHeaders, onAnswer: (head: ResponseHead) => void) {
    this.headers = headers
    this.#onAnswer = onAnswer
  }

  get hasStarted(): boolean {
    return this.status !== 0
  }

  get isAnswered(): boolean {
    return this.hasStarted
  }

  respond(head: ResponseHead): void {
    this.status = head.status
    this.#onAnswer(head)
    for (const tell of this.#listeners) tell(true)
  }

  onEnd<Target>(listener: (isComplete: boolean, target: Target) => void, target?: Target): void {
    this.#listeners.push((isComplete) => listener(isComplete, target as Target)) // a listener without one takes none
  }

  willRefuse(): void {}

  transformHead(): void {}

  startResponse(): never {
    throw new Error('a decision is answered whole')
  }

  tunnel(): never {
    throw new Error('a decision is no handshake')
  }

  closeTunnel(): void {}

  closeAfterResponse(): void {}

  destroy(): void {}

  reset(): void {}
}
