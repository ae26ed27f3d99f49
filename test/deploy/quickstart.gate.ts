import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { makeFolder } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { startTestPostgres } from '../support/world.ts'
import { findStatuses, followPage, packInto, pageLack, readPage } from './tutorial.ts'

const { blocks, promised } = readPage('docs/tutorials/first-request.md')

testUnlessLacking(t, 'the words of the quick start lead to a protected request', tryPage, pageLack)

/** A gateway that npx started, of which npx is killed without a chance to pass the signal on. */
const killedNpx = `
npx sallyport serve > npx.log 2>&1 &
NPX=$!
for i in $(seq 100); do node_modules/.bin/sallyport healthcheck && break; sleep 0.3; done
kill -KILL "$NPX"
for i in $(seq 100); do node_modules/.bin/sallyport healthcheck --live || { echo "ended with npx"; break; }; sleep 0.3; done
`

async function tryPage(t: Test): Promise<void> {
  t.same(promised, ['401', '200', '200', '403', '200'], 'the page has its requests')
  const folder = makeFolder(t)
  await packInto(folder)
  const [postgres, issuer] = await Promise.all([startTestPostgres(), startIssuer({ audience: 'my-api' })])
  t.teardown(() => Promise.all([postgres.stop(), issuer.stop()]))
  const given = {
    DATABASE_URL: postgres.url,
    OIDC_ISSUER: issuer.issuer,
    OIDC_AUDIENCE: 'my-api',
    TOKEN: await issuer.mint({ sub: 'somebody', email: 'somebody@example.com' }),
  }
  const text = [...blocks, killedNpx].join('\necho "--- next"\n')
  const ports = ['3000', '8080', '8081', '9090']
  const { code, stdout, stderr } = await followPage(t, folder, fillIn(text, given), ports)
  t.equal(code, 0, stderr)
  t.match(stdout, /^Usage: sallyport/m)
  t.match(stdout, /^ready: .*database ok/m)
  t.same(findStatuses(stdout), promised)
  t.match(stdout, /"x-gateway-identity": "ey/, 'the backend was told who asks')
  t.match(stdout, /^created organization 1 \(acme\)\nuser 1 is org-member of organization 1\n/m)
  t.match(stdout.slice(stdout.lastIndexOf('HTTP/1.1 200')), /"x-organization-id": "1"/, 'and for which organization')
  t.notMatch(stdout, given.TOKEN, 'and not the token')
  const last = stdout.slice(stdout.lastIndexOf('--- next'))
  t.match(last, /^ready: [\s\S]*^ended with npx$/m, 'a gateway that npx started ends with it')
  t.match(readFileSync(join(folder, 'npx.log'), 'utf8'), /drain/, 'as SIGTERM would end it')
  t.notMatch(readFileSync(join(folder, 'gateway.log'), 'utf8'), given.TOKEN)
}

/** The reader's own values in the place of the page's. */
function fillIn(text: string, given: Readonly<Record<string, string>>): string {
  let script = text
  for (const [name, value] of Object.entries(given)) {
    const line = new RegExp(`^export ${name}=.*$`, 'm')
    if (!line.test(script)) throw new Error(`the page does not ask for ${name}`)
    script = script.replace(line, () => `export ${name}='${value}'`)
  }
  return script
}
