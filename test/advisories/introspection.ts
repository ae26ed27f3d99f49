import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'

export type AskedToken = Readonly<{ token: string; form: URLSearchParams; headers: IncomingHttpHeaders; url: string }>

type Answers = Readonly<Record<string, unknown>> | string | ((response: ServerResponse) => void)

/** An endpoint for introspection (RFC 7662) that answers as the test says: a text is sent as it is. */
export async function startIntrospection(t: Test) {
  const asked: AskedToken[] = []
  const answers = new Map<string, Answers>()
  const open = { now: 0, most: 0 }
  const server = createServer(async (request, response) => {
    const { url = '', headers } = request
    if (url.startsWith('/.well-known/')) {
      response.end(JSON.stringify(answers.get('discovery')))
      return
    }
    let text = ''
    for await (const part of request) text += String(part)
    const form = new URLSearchParams(text)
    const token = form.get('token') ?? ''
    asked.push({ token, form, headers, url })
    open.now += 1
    open.most = Math.max(open.most, open.now)
    response.on('close', () => (open.now -= 1))
    const answer = answers.get(token) ?? { active: false }
    if (typeof answer === 'function') answer(response)
    else response.end(typeof answer === 'string' ? answer : JSON.stringify(answer))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP listener's address is never a string
  return {
    origin,
    endpoint: `${origin}/introspect`,
    asked,
    open,
    answer: (token: string, answer: Answers): void => void answers.set(token, answer),
    countAsked: (token: string): number => asked.filter((question) => question.token === token).length,
  }
}
