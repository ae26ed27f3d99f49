import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { openRawClient, until } from '../support/gateway.ts'
import { startTestWorld } from '../support/world.ts'

const world = await startTestWorld(t, { hasOwnProcess: true })
const credential = `x-oauth-access-token: ${world.users.owner.jwt}\r\n`
const smuggled = `GET /admin/x HTTP/1.1\r\nHost: h\r\n${credential}\r\n`

// A proxy that opens a tunnel no longer sees what goes through it; one that answers TRACE shows a page its own
// credentials.
t.test('CONNECT opens nothing, for any caller and any target', async (t) => {
  await world.clearRecorder()
  for (const origin of [world.public, world.decision, world.admin])
    for (const target of ['127.0.0.1:80', new URL(world.public).host, 'h:443', '/public/x', 'http://h/public/x', '*'])
      for (const lines of ['', credential]) {
        const client = await openRawClient(t, origin)
        client.send(`CONNECT ${target} HTTP/1.1\r\nHost: h\r\n${lines}\r\n${smuggled}`)
        const text = await client.closed()
        t.match(text, /^HTTP\/1\.1 40[05] /, `${target}: ${text.slice(0, 60)}`)
        t.equal(text.match(/HTTP\/1\.1 /g)?.length, 1, 'what follows is not read')
      }
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('TRACE and TRACK show nothing', async (t) => {
  await world.clearRecorder()
  for (const origin of [world.public, world.decision, world.admin])
    for (const method of ['TRACE', 'TRACK'])
      for (const target of ['/public/x', '/status', '/users/me', '/nowhere', '/metrics', '/authorize'])
        for (const lines of ['', credential]) {
          const client = await openRawClient(t, origin)
          // A loopback admin listener answers other names with 421, whatever the method.
          client.send(
            `${method} ${target} HTTP/1.1\r\nHost: localhost\r\nMax-Forwards: 0\r\nX-Own: echo-me\r\n${lines}Connection: close\r\n\r\n`,
          )
          const text = await client.closed()
          t.match(text, /^HTTP\/1\.1 (?:400|404|405|501) /, `${method} ${target}`)
          t.notMatch(text, /echo-me|eyJ/)
          t.equal(text.includes('message/http'), false)
        }
  t.same(await world.recorded(), [], 'nothing arrived')
})

t.test('a method or coding that no server here knows raises no alarm', async (t) => {
  const log = () => readFileSync(join(world.directory, 'gateway.log'), 'utf8')
  for (const head of ['BREW /alarm HTTP/1.1\r\n', 'POST /alarm HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n'])
    t.match(await world.raw(`${head}Host: h\r\n\r\n`), /^HTTP\/1\.1 501 /)
  await world.raw('GET /status HTTP/1.1\r\nHost: h\r\nx-request-id: alarm-last\r\nConnection: close\r\n\r\n')
  await until(() => log().includes('alarm-last'), 'the lines')
  t.notMatch(log(), /"level":(?:"error"|50)/)
})
