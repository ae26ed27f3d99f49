import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { sendAnswer } from './prepare-answer.ts'
import type { Ending, ScriptStep } from './read-script.ts'
import type { BackendRequest } from './serve-backend.ts'

export async function playScript(
  steps: readonly ScriptStep[],
  arrival: BackendRequest,
  response: ServerResponse,
): Promise<void> {
  const departure = new AbortController()
  response.once('close', () => departure.abort())
  if (response.closed) departure.abort()

  for (const step of steps) {
    if (departure.signal.aborted) return
    switch (step.kind) {
      case 'write':
        beginStream(response)
        await flush(response, step.bytes)
        break
      case 'wait':
        await waitUnlessLeft(step.waitMs, departure.signal)
        break
      case 'end':
        return endStream(step.ending, arrival, response)
      case 'answer':
        return sendAnswer(response, step.answer)
      default:
        step satisfies never
    }
  }
  if (departure.signal.aborted) return
  beginStream(response)
  response.end()
}

function beginStream(response: ServerResponse): void {
  if (response.headersSent) return
  response.socket?.setNoDelay(true)
  response.writeHead(200, ['Content-Type', 'text/event-stream', 'Cache-Control', 'no-cache'])
}

// Waiting for each write keeps the steps apart on the network, and respects a slow reader.
function flush(response: ServerResponse, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    response.once('close', resolve)
    response.write(bytes, () => {
      response.off('close', resolve)
      resolve()
    })
  })
}

async function waitUnlessLeft(waitMs: number, left: AbortSignal): Promise<void> {
  try {
    await delay(waitMs, undefined, { signal: left })
  } catch (error) {
    if (!left.aborted) throw error
  }
}

function endStream(ending: Ending, { request, endExchange }: BackendRequest, response: ServerResponse): void {
  switch (ending) {
    case 'fin':
      endExchange({ aborted: false })
      request.socket.end()
      return
    case 'rst':
      endExchange({ aborted: false })
      request.socket.resetAndDestroy()
      return
    case 'hang':
      beginStream(response)
      response.flushHeaders()
      return
    default:
      ending satisfies never
  }
}
