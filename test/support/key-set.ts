import { exportJWK, generateKeyPair, type JWK, type JWTPayload, SignJWT } from 'jose'
import { createKeySet, type FindKeyFor, type KeySet } from '../../gateway/stages/authenticate/jwks/key-set.ts'
import type { KeyEvent, LoadKeys } from '../../gateway/stages/authenticate/jwks/refresh.ts'
import type { KeyStore } from '../../gateway/stages/authenticate/jwks/store.ts'
import { chooseKey, type FindKey, parseToken, verifySignature } from '../../gateway/stages/authenticate/signature.ts'
import { createSimulatedClock } from './simulated-clock.ts'

/** A key pair that signs: its public half, and a token under any key id. */
export async function createSigner(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256')
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
  const sign = (named = kid, claims: JWTPayload = {}, typ = 'JWT') =>
    new SignJWT({ sub: 'a', ...claims }).setProtectedHeader({ alg: 'ES256', kid: named, typ }).sign(privateKey)
  return { jwk, sign }
}

/** A gate that can be held shut; its waiters go on when it is opened. */
function createDoor() {
  let waiting: (() => void)[] = []
  return {
    isHeld: false,
    async enter(): Promise<void> {
      if (this.isHeld) await new Promise<void>((resolve) => waiting.push(resolve))
    },
    open(): void {
      this.isHeld = false
      for (const go of waiting) go()
      waiting = []
    },
  }
}

export type StoredRow = { keys: unknown; fetchedAt: Date }

/** A store in the test's hand. */
export function createTestStore(row?: StoredRow) {
  const store = {
    row,
    isDown: false,
    door: createDoor(),
    loads: 0,
    saved: [] as { keys: readonly object[]; fetchedAt: Date }[],
  }
  const keyStore: KeyStore = {
    load: async () => {
      const { row: found } = store
      store.loads++
      await store.door.enter()
      if (store.isDown) throw new Error('the store is down')
      return found
    },
    save: async (_issuer, keys, fetchedAt) => {
      if (store.isDown) throw new Error('the store is down')
      store.saved.push({ keys, fetchedAt })
      store.row = { keys, fetchedAt }
    },
  }
  return Object.assign(store, { keyStore })
}

/** The guard's own way with a token: its form first, then its signature. Resolves to the payload. */
export async function proveToken(token: string, findKey: FindKeyFor, from?: string): Promise<Buffer> {
  const parsed = parseToken(token)
  const find: FindKey = (header, jws) => findKey(header, jws, from)
  verifySignature(parsed, await chooseKey(parsed.headerText, find))
  return parsed.payload
}

export type HoldOptions = Readonly<{
  refreshMs?: number
  maxStaleMs?: number
  store?: ReturnType<typeof createTestStore>
}>

/** A key set whose issuer, store and clock the test holds in its hand. Nothing is fetched before it says so. */
export function holdKeySet(
  published: readonly unknown[],
  { refreshMs = 300_000, maxStaleMs = 86_400_000, store = createTestStore() }: HoldOptions = {},
) {
  const clock = createSimulatedClock()
  const issuer = { keys: published, isDown: false, door: createDoor(), fetchedAtMs: [] as number[] }
  const events: KeyEvent[] = []
  const stopping = new AbortController()
  const load: LoadKeys = async () => {
    issuer.fetchedAtMs.push(clock.monotonicMs())
    await issuer.door.enter()
    if (issuer.isDown) throw new TypeError('fetch failed')
    return issuer.keys
  }
  const keys: KeySet = createKeySet(load, {
    issuer: 'https://issuer.example',
    refreshMs,
    maxStaleMs,
    clock,
    store: store.keyStore,
    onEvent: (event) => events.push(event),
    signal: stopping.signal,
  })
  const judgeFrom = async (from: string | undefined, token: string): Promise<string> =>
    proveToken(token, keys.findKey, from).then(
      () => {
        keys.noteProven(from)
        return 'accepted'
      },
      (error: { code?: string }) => String(error.code ?? error),
    )
  const judge = (token: string): Promise<string> => judgeFrom(undefined, token)
  /** Lets time pass until there is a verdict; says after how many milliseconds. */
  const judgeInTime = async (token: string): Promise<Readonly<{ verdict: string; tookMs: number }>> => {
    const startedMs = clock.monotonicMs()
    let verdict: string | undefined
    void judge(token).then((found) => {
      verdict = found
    })
    await clock.pass(0)
    while (verdict === undefined && clock.monotonicMs() - startedMs < 60_000) await clock.pass(50)
    return { verdict: verdict ?? 'none', tookMs: clock.monotonicMs() - startedMs }
  }
  return {
    issuer,
    store,
    keys,
    clock,
    events,
    judge,
    judgeFrom,
    judgeInTime,
    fetches: () => issuer.fetchedAtMs.length,
    stop: () => stopping.abort(),
  }
}
