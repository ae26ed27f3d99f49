import t from 'tap'
import { get, host, startProxy, valuesOf } from '../support/proxy.ts'

const proxy = await startProxy(t)

/** A target that goes out byte for byte. */
const testPassing = (name: string, target: string, sent = target): void =>
  proxy.testCase(t, name, { request: get('', target) }, async (t, { client, head }) => {
    t.equal((await head()).split('\r\n', 1)[0], `GET ${sent} HTTP/1.1`)
    t.match(await client.closed(), /^HTTP\/1\.1 200 /)
  })

/** A target that is refused for every caller. */
const testRefused = (name: string, target: string, status: number, method = 'GET'): void =>
  proxy.testCase(
    t,
    name,
    { request: (lines) => get('', target)(lines).replace('GET', method), strangerStatus: status },
    async (t, { client, received }) => {
      t.match(await client.closed(), new RegExp(`^HTTP/1.1 ${status} `))
      t.same(received(), [])
    },
  )

for (const segment of ['a%20b', '%E2%82%AC', '%e2%82%ac', '100%25', '%41'])
  testPassing(`E01: the escapes of ${segment} go out as they came`, `/x/${segment}`)
for (const segment of ['a%2Fb', 'a%2fb', '%5C', 'a%252Fb'])
  testRefused(`E01: the escape of ${segment} is 400`, `/x/${segment}`, 400)

testPassing('E02: an empty query keeps its question mark', '/x/1?')
testPassing('E02: two question marks are kept', '/x/1??')
proxy.testCase(
  t,
  'E02: an empty query decides nothing',
  { request: get('', '/owners/1?') },
  async (t, { client, received }) => {
    t.match(await client.closed(), /^HTTP\/1\.1 403 /)
    t.same(received(), [])
  },
)

testPassing('E03: a query is the backend’s to read', '/x/1?x=1&x=2;y=%zz&=&%')

for (const target of ['//evil.example/x', '///evil.example/x', '//x/1', '/x//1', '//evil.example/x/1'])
  testRefused(`E04: ${target} is 400`, target, 400)

for (const target of ['http://other-host/x/1', 'http://api.example.com:81/x/1', 'http://user@api.example.com/x/1'])
  testRefused(`E05: the absolute form ${target} is 400`, target, 400)
testPassing('E05: the absolute form of the request’s own host is its path', 'http://api.example.com/x/1?y', '/x/1?y')
proxy.testCase(
  t,
  'E05: the absolute form is judged by its path',
  { request: get('', 'http://api.example.com/owners/1') },
  async (t, { client }) => {
    t.match(await client.closed(), /^HTTP\/1\.1 403 /)
  },
)

for (const target of ['/x/%2E%2E/y', '/x/a/../y', '/x/.%2e/y', '/x/%252e%252e/y', '/x/..;/y', '/%2e%2e/x/1'])
  testRefused(`E06: ${target} is 400`, target, 400)

for (const segment of ['[...slug]', 'a...b', '...', '.hidden', 'a..'])
  testPassing(`E07: ${segment} is a name like any other`, `/x/${segment}/y`)

testPassing('E08: dots in a query do not lead up', '/x/1?a=/ho/%2E%2E/hi&b=../../owners/1')

testPassing('E09: a path of 8,000 octets passes', `/x/${'y'.repeat(7_997)}`)
testRefused('E09: one beyond 8 KiB is 414', `/x/${'y'.repeat(8_190)}`, 414)

for (const target of ['/', '/x', '/X/1', '/nowhere', '/ownersx/1'])
  testRefused(`E11: nothing is served at ${target}`, target, 404)

for (const method of ['POST', 'DELETE', 'OPTIONS'])
  proxy.testCase(
    t,
    `E12: ${method} on a path that takes GET is 405`,
    { request: (lines) => `${method} /read/1 HTTP/1.1\r\n${host}${lines}\r\n`, strangerStatus: 405 },
    async (t, { client, received }) => {
      const text = await client.until(/"method_not_allowed"/)
      t.same(valuesOf(text, 'allow'), ['GET, HEAD'])
      t.same(received(), [])
    },
  )
