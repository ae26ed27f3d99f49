import { createHash, type Hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

export type IncomingBody = Readonly<{
  bytes: () => number
  sha256: () => string
  isComplete: () => boolean
  arrived: Promise<boolean>
  tap: (sink: (chunk: Buffer) => void) => void
}>

export const noBody: Pick<IncomingBody, 'bytes' | 'sha256' | 'isComplete'> = {
  bytes: () => 0,
  sha256: () => emptySha256,
  isComplete: () => false,
}

const emptySha256 = createHash('sha256').digest('hex')

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
