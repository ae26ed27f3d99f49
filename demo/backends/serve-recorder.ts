import { createServer } from 'node:http'
import { sendJson } from './prepare-answer.ts'
import type { Journal } from './record-requests.ts'
import { type RunningServer, startServer } from './start-server.ts'

export function serveRecorder(journal: Journal, host: string): Promise<RunningServer> {
  const server = createServer((request, response) => {
    request.resume()
    const path = request.url?.split('?', 1)[0]
    if (path !== '/requests') return sendJson(response, 404, { error: 'only /requests is here' })
    switch (request.method) {
      case 'GET':
        return sendJson(response, 200, journal.list())
      case 'DELETE':
        journal.clear()
        return void response.writeHead(204).end()
      default:
        return sendJson(response, 405, { error: 'GET or DELETE' }, ['Allow', 'GET, DELETE'])
    }
  })
  return startServer(server, host)
}
