import type { ServerResponse } from 'node:http'
import { echoWebSocket } from '../../../demo/backends/echo-websocket.ts'
import { openJournal, type RecordedRequest } from '../../../demo/backends/record-requests.ts'
import { serveBackend } from '../../../demo/backends/serve-backend.ts'
import type { Owner } from '../../support/owner.ts'

/** A backend that records and echoes whatever reaches it, and streams at the test's word. */
export type Backend = Readonly<{
  port: number
  list: () => readonly RecordedRequest[]
  /** Sends one more event to each client of `/public/events`. */
  tellEvent: (data: string) => void
}>

/** An answer of the backend that no gateway gives. */
export const ownAnswer = 'of the backend'

/** An answer that commands the proxy in front. */
export const commandingAnswer = '"and a command"'

/** Another target, a file, an unhealthy host: everything that some proxy obeys. */
const commands = {
  'x-accel-redirect': '/admin/users',
  'x-accel-expires': '3600',
  'x-accel-limit-rate': '1',
  'x-accel-charset': 'utf-16',
  'x-sendfile': '/etc/passwd',
  'x-lighttpd-send-file': '/etc/passwd',
  'x-litespeed-location': '/admin/users',
  'x-reproxy-url': '/admin/users',
  'x-envoy-immediate-health-check-fail': 'true',
  'x-gateway-identity': 'forged',
  'surrogate-control': 'max-age=3600, content="ESI/1.0"',
}

async function sendCommands(response: ServerResponse): Promise<void> {
  response.writeHead(200, { 'content-type': 'application/json', ...commands }).end(commandingAnswer)
}

async function sendOwn(response: ServerResponse, status: number): Promise<void> {
  response.writeHead(status, { 'content-type': 'text/plain', 'x-own': ownAnswer }).end(ownAnswer)
}

/** Starts it on a free port; it ends with its owner. */
export async function startBackend(owner: Owner): Promise<Backend> {
  const journal = openJournal(() => Date.now())
  const listeners = new Set<ServerResponse>()
  const { url, stop } = await serveBackend(
    {
      name: 'platform',
      answer: ({ path, query }, response) => {
        if (query.has('commands')) return sendCommands(response)
        const [, status] = /^\/public\/answers\/(\d+)$/.exec(path) ?? []
        if (status !== undefined) return sendOwn(response, Number(status))
        if (path !== '/public/events') return undefined
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.flushHeaders()
        listeners.add(response)
        response.once('close', () => listeners.delete(response))
        return new Promise((resolve) => response.once('close', resolve))
      },
      takeUpgrade: echoWebSocket(),
    },
    journal,
    '127.0.0.1',
  )
  owner.teardown(stop)
  return {
    port: Number(new URL(url).port),
    list: journal.list,
    tellEvent: (data) => {
      for (const listener of listeners) listener.write(`data: ${data}\n\n`)
    },
  }
}
