import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { completedEvent, createdEvent, deltaEvent } from '../../test/support/event-streams.ts'
import type { Owner } from '../../test/support/owner.ts'

/** Events of a stream between its first and its last, and the time between two of them. */
const deltas = 8
const deltaEveryMs = 100

/** Answers with the size of the request's body, and on paths of agents with a stream of nearly a second. */
export async function startSoakBackend(owner: Owner): Promise<string> {
  const server = createServer((request, response) => {
    let bytes = 0
    request.on('error', () => {})
    response.on('error', () => {})
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => {
      if (request.url?.startsWith('/agent/')) void speak(response)
      else response.setHeader('content-type', 'application/json').end(JSON.stringify({ bytes }))
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  owner.teardown(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  return `http://127.0.0.1:${port}`
}

async function speak(response: ServerResponse): Promise<void> {
  response.setHeader('content-type', 'text/event-stream').write(createdEvent)
  for (let number = 1; number <= deltas; number += 1) {
    await sleep(deltaEveryMs)
    response.write(deltaEvent(number))
  }
  response.end(completedEvent)
}
