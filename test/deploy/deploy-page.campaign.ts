import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startIssuer } from '../../demo/issuer.ts'
import { startPostgres } from '../../demo/postgres.ts'
import { call } from '../support/client.ts'
import { lackOf, makeFolder, run, tool } from '../support/deploy.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { oauth } from '../support/world.ts'
import { clusterLack, clusterPrograms, startControlPlane } from './cluster/control-plane.ts'
import { startKubelet } from './cluster/kubelet.ts'
import { followService, leadToService, openNamespace, waitForRollout } from './cluster/namespace.ts'
import { commandsOfPage, layRepository, npx } from './deploy-page.ts'

const deployment = 'gateway-sallyport'

const name = 'the commands of the page on Kubernetes, on an API server, lead to pods that serve'
testUnlessLacking(t, name, followPage, clusterLack ?? lackOf('helm'))

async function followPage(t: Test): Promise<void> {
  const [postgres, issuer, upstream, plane] = await Promise.all([
    startPostgres(),
    startIssuer({ audience: 'my-api' }),
    startHttpUpstream(t),
    startControlPlane(t),
  ])
  t.teardown(() => Promise.all([postgres.stop(), issuer.stop()]))
  const namespace = await openNamespace(t, plane)
  const addresses = await followService(t, plane.callApi, deployment)
  const host = await leadToService(t, addresses, 8080)
  await startKubelet(t, plane, { [`${deployment}:80`]: host })
  const folder = makeFolder(t)
  const kubectl = `exec ${join(clusterPrograms, 'kubectl')} "$@"`
  const bin = layRepository(folder, { npx, kubectl, helm: `exec ${tool.helm} "$@"` })
  const env = { ...namespace.env, PATH: `${bin}:${process.env.PATH}`, DATABASE_URL: postgres.url }
  const follow = (script: string) => run('bash', ['-euc', script], { cwd: folder, env })
  const commands = commandsOfPage(issuer.issuer, upstream.url)

  const { code, stdout, stderr } = await follow(commands)
  t.equal(code, 0, `${stdout}${stderr}`)
  t.match(stdout, /^TEST SUITE:\s+gateway-sallyport-test\n(?:.*\n)*?Phase:\s+Succeeded$/m)
  await waitForRollout(namespace, deployment)
  await until(() => addresses().length === 2, 'two endpoints of the Service')
  const ask = (headers = {}) => call(`http://${host}`, { path: '/users/me', headers })
  t.equal((await ask()).status, 401)
  const jwt = await issuer.mint({ sub: 'first', email: 'first@example.com' })
  t.equal((await ask(oauth({ jwt }))).status, 200)

  const again = await follow(commands.slice(commands.indexOf('helm upgrade')))
  t.equal(again.code, 0, `the same upgrade again: ${again.stdout}${again.stderr}`)
}
