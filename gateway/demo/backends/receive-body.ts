import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

/** A request body on its way in: counted and hashed as it passes, kept only where somebody asks. */
export type IncomingBody = Readonly<{
  bytes: () => number
  /** Of what has arrived so far. */
  sha256: () => string
  isComplete: () => boolean
  /** Settles once: true when the whole body is here, false when its connection dropped first. */
  arrived: Promise<boolean>
  /** Calls back with every chunk; only a call made before the first chunk sees all of them. */
  tap: (sink: (chunk: Buffer) => void) => void
}>

/** The body of a request that never got as far as having one. */
export const noBody: Pick<IncomingBody, 'bytes' | 'sha256' | 'isComplete'> = {
  bytes: () => 0,
  sha256: () => emptySha256,
  isComplete: () => false,
}

const emptySha256 = createHash('sha256').digest('hex')

/** Starts reading at once: a body that nobody wants must not stall its connection. */
export function receiveBody(request: IncomingMessage): IncomingBody {
  let bytes = 0
  let complete = false
  let hash: Hash | undefined
  let digest: string | undefined

  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    hash ??= createHash('sha256')
    hash.update(chunk)
  })
  // A dropped connection is an ordinary event here; 'close' reports it.
  request.on('error', () => undefined)
  const arrived = new Promise<boolean>((resolve) => {
    request.once('end', () => {
      complete = true
    })
    request.once('close', () => {
      digest = hash?.digest('hex') ?? emptySha256
      hash = undefined
      resolve(complete)
    })
  })

  return {
    bytes: () => bytes,
    sha256: () => digest ?? hash?.copy().digest('hex') ?? emptySha256,
    isComplete: () => complete,
    arrived,
    tap: (sink) => {
      request.on('data', sink)
    },
  }
}

/** The whole body, or `cut` when the peer left, or `too-large` when it outgrew the bound (the rest is not kept). */
export async function collectBody(body: IncomingBody, maxBytes: number): Promise<Buffer | 'cut' | 'too-large'> {
  const chunks: Buffer[] = []
  body.tap((chunk) => {
    if (body.bytes() <= maxBytes) chunks.push(chunk)
    else chunks.length = 0
  })
  const whole = await body.arrived
  if (!whole) return 'cut'
  return body.bytes() <= maxBytes ? Buffer.concat(chunks) : 'too-large'
}
