// Builds the API server of Kubernetes, its controllers, kubectl and etcd into .sallyport/cluster, unless they are there. The
// first time takes ten minutes on two processors.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findGo, inModule } from './by-go.js'
import { locate, once } from './locate.js'

const folder = locate('cluster')
const kubernetes = 'k8s.io/kubernetes@v1.30.14'
/** Kubernetes publishes the modules of its repository under this version. */
const staging = 'v0.30.14'
const etcd = 'go.etcd.io/etcd/server/v3@v3.5.15'
const wantedMinor = 26
/** Helm asks a server for its version, which Kubernetes' own scripts set. */
const version = Object.entries({ gitVersion: 'v1.30.14', gitMajor: '1', gitMinor: '30' })
  .map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
  .join(' ')

export function buildCluster() {
  once(join(folder, '.built'), `${kubernetes} ${etcd}`, () => {
    console.log('Building the API server of Kubernetes, which takes ten minutes the first time …')
    const go = findGo(wantedMinor)
    build(go, kubernetes, ['kube-apiserver', 'kube-controller-manager', 'kubectl'].map(commandOf), listReplaced(go))
    build(go, etcd, ['go.etcd.io/etcd/server/v3'], [])
  })
}

function commandOf(name) {
  return `k8s.io/kubernetes/cmd/${name}`
}

/** The modules that Kubernetes' own go.mod takes from its repository, and a foreign one has to name. */
function listReplaced(go) {
  const options = { cwd: tmpdir(), encoding: 'utf8' }
  const { GoMod } = JSON.parse(execFileSync(go, ['mod', 'download', '-json', kubernetes], options))
  return [...readFileSync(GoMod, 'utf8').matchAll(/^\s*(k8s\.io\/\S+) => \.\/staging/gm)].map(([, name]) => name)
}

function build(go, module, commands, replaced) {
  const replacements = replaced.map((name) => `replace ${name} => ${name} ${staging}\n`)
  const text = `module cluster\n\ngo 1.22\n\nrequire ${module.replace('@', ' ')}\n\n${replacements.join('')}`
  inModule(go, text, (run) => {
    for (const command of commands) {
      const name = command.endsWith('/v3') ? 'etcd' : command.split('/').at(-1)
      run('build', '-mod=mod', '-trimpath', `-ldflags=-s -w ${version}`, '-o', join(folder, name), command)
    }
  })
}
