// One of npm's proxy packages behind the gateway's decision, in one process. Arguments: ENGINE CONFIGURATION PORT
// BACKEND-PORT PACKAGES.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createRequire } from 'node:module'
import { createDecide } from './decide.ts'

const [engine = '', configurationFile = '', port = '', backendPort = '', packages = ''] = process.argv.slice(2)
const require = createRequire(`${packages}/`)
const decide = await createDecide(configurationFile)
const target = `http://127.0.0.1:${backendPort}`

/** Resolves to whether the request may pass. If so, it removes the credential and adds the pinned headers. */
async function admit(request: IncomingMessage): Promise<boolean> {
  const pinned = await decide(request.method ?? '', request.url ?? '', request.rawHeaders)
  if (!pinned) return false
  delete request.headers['x-oauth-access-token']
  for (let index = 0; index < pinned.length; index += 2) request.headers[pinned[index] ?? ''] = pinned[index + 1]
  return true
}

function refuse(response: ServerResponse): void {
  response.writeHead(403).end()
}

const starts: Readonly<Record<string, () => unknown>> = {
  'http-proxy': () => {
    const { Agent } = require('node:http')
    const proxy = require('http-proxy').createProxyServer({
      target,
      xfwd: true,
      agent: new Agent({ keepAlive: true, maxSockets: 256 }),
    })
    createServer(async (request, response) => {
      if (await admit(request)) proxy.web(request, response)
      else refuse(response)
    }).listen(Number(port), '127.0.0.1')
  },
  'fast-gateway': () => {
    const admitOrRefuse = async (request: IncomingMessage, response: ServerResponse): Promise<boolean> => {
      if (await admit(request)) return false
      refuse(response)
      return true
    }
    require('fast-gateway')({
      routes: [{ prefix: '', target, pathRegex: '/*', hooks: { onRequest: admitOrRefuse } }],
    }).start(Number(port), '127.0.0.1')
  },
  '@fastify/http-proxy': () => {
    const fastify = require('fastify')({ logger: false })
    fastify.register(require('@fastify/http-proxy'), {
      upstream: target,
      undici: { connections: 256 },
      preHandler: async (
        request: { raw: IncomingMessage },
        reply: { code: (status: number) => { send: () => unknown } },
      ) => {
        if (!(await admit(request.raw))) return reply.code(403).send()
        return undefined
      },
    })
    fastify.listen({ port: Number(port), host: '127.0.0.1' })
  },
}

starts[engine]?.()
