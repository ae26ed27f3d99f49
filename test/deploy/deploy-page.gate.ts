import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { startIssuer } from '../../demo/issuer.ts'
import { call } from '../support/client.ts'
import {
  chart,
  findManifest,
  lackOf,
  type Manifest,
  makeFolder,
  readManifests,
  repository,
  run,
  tool,
} from '../support/deploy.ts'
import { until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { type Content, contentsOfPod } from '../support/pod.ts'
import { oauth, startTestPostgres } from '../support/world.ts'
import { commandsOfPage, layRepository, npx } from './deploy-page.ts'

const program = join(repository, 'dist/gateway/main.js')

/** `kubectl create` into files, `helm upgrade` into the manifests that Helm would send; other commands only succeed. */
const shims: Readonly<Record<string, string>> = {
  npx,
  kubectl: `[ "$1" = create ] || exit 0
kind=$2; [ "$kind" = secret ] && shift
folder=objects/$kind/$3; mkdir -p "$folder"
for word in "\${@:4}"; do case $word in
  --from-file=*) from=\${word#*=}; if [ -d "$from" ]; then cp "$from"/* "$folder"; else cp "$from" "$folder"; fi ;;
  --from-literal=*) pair=\${word#*=}; printf %s "\${pair#*=}" > "$folder/\${pair%%=*}" ;;
  *) exit 1 ;;
esac; done`,
  helm: `[ "$1" = upgrade ] || exit 0
[ "$2 $4" = "--install helm/sallyport" ] || exit 1
exec "$HELM" template "$3" "$CHART" "\${@:5}" --set "$PORTS" > manifests.yaml`,
}

testUnlessLacking(t, 'the commands of the page on Kubernetes lead to a pod that serves', followPage, lackOf('helm'))

async function followPage(t: Test): Promise<void> {
  const [postgres, issuer, upstream] = await Promise.all([
    startTestPostgres(),
    startIssuer({ audience: 'my-api' }),
    startHttpUpstream(t),
  ])
  t.teardown(() => Promise.all([postgres.stop(), issuer.stop()]))
  const folder = makeFolder(t)
  const [clients, decision, admin] = await Promise.all([findFreePort(), findFreePort(), findFreePort()])
  const bin = layRepository(folder, shims)
  const { code, stderr } = await run('bash', ['-euc', commandsOfPage(issuer.issuer, upstream.url)], {
    cwd: folder,
    env: {
      PATH: `${bin}:${process.env.PATH}`,
      DATABASE_URL: postgres.url,
      HELM: tool.helm,
      CHART: chart,
      PORTS: `ports.public=${clients},ports.decision=${decision},ports.admin=${admin},config.drain.delayMs=100`,
    },
  })
  t.equal(code, 0, stderr)
  const objects = readObjects(folder)
  for (const job of ['-check-policy', '-migrations', '-check-directory']) {
    const [command, ...args] = commandOf(findManifest(objects.manifests, 'Job', job), objects, makeFolder(t))
    const ended = await run(command, args)
    t.equal(ended.code, 0, `${job}: ${ended.stdout}${ended.stderr}`)
  }
  const [command, ...args] = commandOf(findManifest(objects.manifests, 'Deployment'), objects, makeFolder(t))
  const gateway = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { PATH: process.env.PATH } })
  t.teardown(() => gateway.kill('SIGKILL'))
  const log: string[] = []
  gateway.stdout.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  const { readinessProbe } = containerOf(findManifest(objects.manifests, 'Deployment'))
  const isReady = async () => {
    if (gateway.exitCode !== null) throw new Error(`the gateway ended: ${log.join('')}`)
    const answer = await call(`http://127.0.0.1:${admin}`, { path: readinessProbe.httpGet.path }).catch(() => undefined)
    return answer?.status === 200
  }
  await until(isReady, 'a pod that is ready', 40_000)
  const url = `http://127.0.0.1:${clients}`
  t.equal((await call(url, { path: '/users/me' })).status, 401)
  const jwt = await issuer.mint({ sub: 'first', email: 'first@example.com' })
  t.equal((await call(url, { path: '/users/me', headers: oauth({ jwt }) })).status, 200)
  gateway.kill('SIGTERM')
  if (gateway.exitCode === null) await once(gateway, 'exit')
  t.equal(gateway.exitCode, 0)
}

type Objects = Readonly<{ manifests: readonly Manifest[]; secrets: Readonly<Record<string, Content>> }>

/** The manifests of Helm, and the objects that `kubectl create` made before. */
function readObjects(folder: string): Objects {
  const list = (path: string) => (existsSync(join(folder, path)) ? readdirSync(join(folder, path)) : [])
  const read = (path: string): Content =>
    Object.fromEntries(list(path).map((name) => [name, readFileSync(join(folder, path, name), 'utf8')]))
  const configMaps = list('objects/configmap').map((name) => ({
    kind: 'ConfigMap',
    metadata: { name },
    data: read(`objects/configmap/${name}`),
  }))
  const secrets = Object.fromEntries(list('objects/secret').map((name) => [name, read(`objects/secret/${name}`)]))
  return { manifests: [...readManifests(readFileSync(join(folder, 'manifests.yaml'), 'utf8')), ...configMaps], secrets }
}

const containerOf = ({ spec }: Manifest): Manifest => spec.template.spec.containers[0]

/** The command of a pod's container, with its volumes in a folder in the place of the root. */
function commandOf(owner: Manifest, { manifests, secrets }: Objects, root: string): readonly [string, ...string[]] {
  const volumes = contentsOfPod(owner.spec.template.spec, manifests, secrets)
  for (const [to, files] of Object.entries(volumes)) {
    mkdirSync(join(root, to), { recursive: true })
    for (const [name, text] of Object.entries(files))
      writeFileSync(join(root, to, name), (text ?? '').replaceAll('/etc/sallyport/', `${root}/etc/sallyport/`))
  }
  const args: readonly string[] = containerOf(owner).args
  return [process.execPath, program, ...args.map((word) => word.replace('/etc/sallyport/', `${root}/etc/sallyport/`))]
}
