// Puts Keycloak from Maven Central into .sallyport/keycloak, unless it is there. The archive stays as it is published; beside it is
// a server with a filled database, a copy of which starts in half the time.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { locate, once, sumOf } from './locate.js'

const folder = locate('keycloak')
const version = '26.7.3'
const sha256 = '27a6535553c3cdcd083872ba40629efafb3475e3b758e0c6f691395561dd0f1f'
/** Experiments of Keycloak's, by which it is a decision point and a transmitter of security events. */
const features = 'authzen,ssf'
/** Maven verifies what it downloads by sums beside the files alone. */
const plugin = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy'
const wantedJava = 17
const archive = join(folder, `keycloak-${version}.zip`)

export function installKeycloak() {
  once(join(folder, '.archive'), `${sha256} ${features}`, () => {
    const isDownloaded = existsSync(archive) && sumOf(archive) === sha256
    console.log(`Installing Keycloak ${version}${isDownloaded ? '' : ', of which 170 MB are downloaded'} …`)
    checkJava()
    const unpacked = ['server', `keycloak-${version}`].map((name) => join(folder, name))
    for (const old of isDownloaded ? unpacked : [folder]) rmSync(old, { recursive: true, force: true })
    mkdirSync(folder, { recursive: true })
    if (!isDownloaded) download()
    unpack()
  })
}

function checkJava() {
  const { stderr } = spawnSync('java', ['-version'], { encoding: 'utf8' })
  const [, major] = /version "(\d+)/.exec(stderr ?? '') ?? []
  if (!(Number(major) >= wantedJava)) throw new Error(`no Java ${wantedJava} on PATH`)
}

function download() {
  const artifact = `org.keycloak:keycloak-quarkus-dist:${version}:zip`
  run('mvn', ['--batch-mode', '--quiet', plugin, `-Dartifact=${artifact}`, `-DoutputDirectory=${folder}`])
  renameSync(join(folder, `keycloak-quarkus-dist-${version}.zip`), archive)
  const found = sumOf(archive)
  if (found !== sha256) throw new Error(`${archive} has the SHA-256 sum ${found}`)
}

function unpack() {
  run('unzip', ['-q', archive])
  renameSync(join(folder, `keycloak-${version}`), join(folder, 'server'))
  const program = join(folder, 'server', 'bin', 'kc.sh')
  run(program, ['build', '--db=dev-file', `--features=${features}`])
  const options = ['--optimized', '--username=operator', '--password:env=PASSWORD', '--no-prompt']
  run(program, ['bootstrap-admin', 'user', ...options])
}

function run(command, args) {
  // The administrator of test/support/keycloak.ts, whose servers listen on loopback alone.
  const env = { ...process.env, PASSWORD: 'operator', JAVA_OPTS_APPEND: '-XX:TieredStopAtLevel=1' }
  execFileSync(command, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'] })
}
