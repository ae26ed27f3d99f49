import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findFreePort } from '../../gateway/demo/free-port.ts'
import { startIssuer } from '../../gateway/demo/issuer.ts'
import { startPostgres } from '../../gateway/demo/postgres.ts'
import { lackOf, makeFolder, repository, run, tool } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { signalGroup } from '../support/serve.ts'

const page = readFileSync(join(repository, 'docs/tutorials/first-request.md'), 'utf8')

/** The commands of the page. */
const blocks = [...page.matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block]) => block ?? '')

/** The status of each request of the page, by the comment on its line. */
const promised = blocks.flatMap((block) => [...block.matchAll(/^curl .*# (\d{3})$/gm)].map(([, status]) => status))

const lack = lackOf('cache') ?? (spawnSync('curl', ['--version']).status === 0 ? undefined : 'no curl on PATH')

testUnlessLacking(t, 'the words of the quick start lead to a protected request', followPage, lack)

/** A gateway that npx started, of which npx is killed without a chance to pass the signal on. */
const killedNpx = `
npx sallyport serve > npx.log 2>&1 &
NPX=$!
for i in $(seq 100); do node_modules/.bin/sallyport healthcheck && break; sleep 0.3; done
kill -KILL "$NPX"
for i in $(seq 100); do node_modules/.bin/sallyport healthcheck --live || { echo "ended with npx"; break; }; sleep 0.3; done
`

async function followPage(t: Test): Promise<void> {
  t.same(promised, ['401', '200', '200', '403', '200'], 'the page has its requests')
  const folder = makeFolder(t)
  const [postgres, issuer, packed] = await Promise.all([
    startPostgres(),
    startIssuer({ audience: 'my-api' }),
    run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], { cwd: repository }),
  ])
  t.teardown(() => Promise.all([postgres.stop(), issuer.stop()]))
  t.equal(packed.code, 0, packed.stderr)
  const given = {
    DATABASE_URL: postgres.url,
    OIDC_ISSUER: issuer.issuer,
    OIDC_AUDIENCE: 'my-api',
    TOKEN: await issuer.mint({ sub: 'somebody', email: 'somebody@example.com' }),
  }
  const script = join(makeFolder(t), 'page.sh')
  writeFileSync(script, await fillIn([...blocks, killedNpx].join('\necho "--- next"\n'), given))
  const { code, stdout, stderr } = await follow(t, script, folder)
  t.equal(code, 0, stderr)
  t.match(stdout, /^Usage: sallyport/m)
  t.match(stdout, /^ready: .*database ok/m)
  t.same(
    [...stdout.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status),
    promised,
  )
  t.match(stdout, /"x-gateway-identity": "ey/, 'the backend was told who asks')
  t.match(stdout, /^created organization 1 \(acme\)\nuser 1 is org-member of organization 1\n/m)
  t.match(stdout.slice(stdout.lastIndexOf('HTTP/1.1 200')), /"x-organization-id": "1"/, 'and for which organization')
  t.notMatch(stdout, given.TOKEN, 'and not the token')
  const last = stdout.slice(stdout.lastIndexOf('--- next'))
  t.match(last, /^ready: [\s\S]*^ended with npx$/m, 'a gateway that npx started ends with it')
  t.match(readFileSync(join(folder, 'npx.log'), 'utf8'), /drain/, 'as SIGTERM would end it')
  t.notMatch(readFileSync(join(folder, 'gateway.log'), 'utf8'), given.TOKEN)
}

/** The reader's own values, and ports that are free here, in the place of the page's. */
async function fillIn(text: string, given: Readonly<Record<string, string>>): Promise<string> {
  let script = text
  for (const [name, value] of Object.entries(given)) {
    const line = new RegExp(`^export ${name}=.*$`, 'm')
    if (!line.test(script)) throw new Error(`the page does not ask for ${name}`)
    script = script.replace(line, () => `export ${name}='${value}'`)
  }
  for (const port of ['3000', '8080', '8081', '9090'])
    script = script.replaceAll(new RegExp(`\\b${port}\\b`, 'g'), String(await findFreePort()))
  return script
}

/** Types it all into a shell, in a group of its own; npm takes packages from the cache without a network. */
async function follow(t: Test, script: string, folder: string) {
  const cache = makeFolder(t)
  cpSync(tool.cache, cache, { recursive: true })
  const shell = spawn('bash', ['-eu', script], {
    cwd: folder,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      npm_config_cache: cache,
      npm_config_offline: 'true',
      npm_config_audit: 'false',
      npm_config_update_notifier: 'false',
    },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => signalGroup(shell.pid ?? 0, 'SIGKILL'))
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    shell[name].on('data', (chunk: Buffer) => {
      output[name] += chunk.toString()
    })
  const [code] = await once(shell, 'close')
  return { code, ...output }
}
