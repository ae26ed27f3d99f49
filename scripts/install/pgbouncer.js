// Builds PgBouncer 1.21 or later into .sallyport/pgbouncer, unless it is there, from the source package of Debian 13.
// Debian 12 has 1.18, which treats prepared statements differently.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { locate } from './locate.js'

const folder = locate('pgbouncer')
const program = join(folder, 'pgbouncer')

export function buildPgbouncer() {
  if (existsSync(program)) return
  const workshop = mkdtempSync(join(tmpdir(), 'sallyport-pgbouncer-'))
  try {
    build(workshop)
  } finally {
    rmSync(workshop, { recursive: true, force: true })
  }
}

function build(workshop) {
  const run = (command, args, cwd = workshop) =>
    execFileSync(command, args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  console.log(`Building PgBouncer in ${folder} …`)
  // Lists of its own: what else is installed from this machine's stays as it is.
  const list = join(workshop, 'sources.list')
  writeFileSync(list, 'deb-src http://deb.debian.org/debian trixie main\n')
  for (const name of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(workshop, name), { recursive: true })
  const options = [
    `Dir::Etc::SourceList=${list}`,
    'Dir::Etc::SourceParts=-',
    `Dir::State::Lists=${join(workshop, 'lists')}`,
    `Dir::Cache=${join(workshop, 'cache')}`,
    'APT::Sandbox::User=root',
  ].flatMap((option) => ['-o', option])
  run('apt-get', [...options, '-qq', 'update'])
  run('apt-get', [...options, '-qq', '--download-only', 'source', 'pgbouncer'])
  const archive = readdirSync(workshop).find((name) => name.endsWith('.orig.tar.gz'))
  if (archive === undefined) throw new Error('the source package has no archive')
  const source = join(workshop, 'source')
  mkdirSync(source)
  run('tar', ['-xzf', archive, '--strip-components=1', '-C', source])
  run('./configure', ['--quiet', '--without-cares'], source)
  run('make', ['pgbouncer'], source)
  mkdirSync(folder, { recursive: true })
  copyFileSync(join(source, 'pgbouncer'), program)
  chmodSync(program, 0o755)
}
