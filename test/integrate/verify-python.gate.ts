import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { oauth, startTestWorld, type TestWorld } from '../support/world.ts'
import { signIdentities } from './long-identity.ts'
import { describePythonLack, findPython } from './python.ts'

const page = readFileSync(new URL('../../docs/guides/verify-identity.md', import.meta.url), 'utf8')
const [, snippet = ''] = /^```python\n([\s\S]*?)^```$/m.exec(page) ?? []
const placeholder = 'http://sallyport:9090/.well-known/jwks.json'

/** The result of the page's snippet for each header: its claims, or the name of its exception. */
async function verify(interpreter: string, jwksUrl: string, headers: readonly string[]): Promise<readonly JsonValue[]> {
  const program = `${snippet.replace(placeholder, jwksUrl)}
import json, sys
def tell(header):
    try:
        return read_identity(header)
    except jwt.PyJWTError as error:
        return [kind.__name__ for kind in type(error).__mro__]
print(json.dumps([tell(header) for header in json.loads(sys.argv[1])]))
`
  const run = promisify(execFile)
  // Variables of the machine, such as those of a proxy, must not reach it.
  const { stdout } = await run(interpreter, ['-I', '-c', program, JSON.stringify(headers)], { env: {} })
  return JSON.parse(stdout)
}

async function askIdentity(world: TestWorld, uri: string): Promise<string> {
  const headers = { ...oauth(world.users.member), 'x-original-method': 'GET', 'x-original-uri': uri }
  return String((await call(world.decision, { path: '/authorize', headers })).headers['x-gateway-identity'])
}

async function testSnippet(t: Test, interpreter: string): Promise<void> {
  const world = await startTestWorld(t)
  const stranger = await startTestWorld(t)
  const jwksUrl = `${world.admin}/.well-known/jwks.json`
  const good = await askIdentity(world, '/datasets')
  const [head, claims, signature = ''] = good.split('.')
  const forged = `${head}.${claims}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`
  const unsigned = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${claims}.`

  t.test('a header of the gateway says who is calling', async (t) => {
    const [identity] = await verify(interpreter, jwksUrl, [good])
    t.match(identity, { user: { id: world.users.member.id }, organization: { role: 'org-member' } })
  })

  t.test('a header that the gateway did not sign for this backend raises an error that is a 401', async (t) => {
    const others = [
      forged,
      unsigned,
      'x',
      await askIdentity(world, '/v1/files'),
      await askIdentity(stranger, '/datasets'),
    ]
    const raised = await verify(interpreter, jwksUrl, others)
    t.equal(raised.length, others.length)
    for (const kinds of raised) {
      t.ok(Array.isArray(kinds) && kinds.includes('PyJWTError'), JSON.stringify(kinds))
      t.notOk(kinds.includes('PyJWKClientConnectionError'), JSON.stringify(kinds))
    }
  })

  t.test('a header that lives longer than the gateway signs for raises an error that is a 401', async (t) => {
    const { jwksUrl, headers } = await signIdentities(t, [60, 61, 3_600])
    const [short, ...long] = await verify(interpreter, jwksUrl, headers)
    t.match(short, { user: { id: 3 } })
    for (const kinds of long) t.equal(kinds[0], 'InvalidTokenError')
  })

  t.test('keys that cannot be fetched raise the error that is a 503', async (t) => {
    const [kinds] = await verify(interpreter, 'http://127.0.0.1:1/', [good])
    t.ok(kinds.includes('PyJWKClientConnectionError'), JSON.stringify(kinds))
  })
}

const interpreter = findPython('pyjwt')
const lack = interpreter === undefined ? describePythonLack('pyjwt') : undefined
testUnlessLacking(t, 'the snippet for Python', (t) => testSnippet(t, interpreter ?? ''), lack)
