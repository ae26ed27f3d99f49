import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

type Packages = Readonly<Record<string, Readonly<{ integrity?: string; optional?: boolean }>>>

type Installer = Readonly<{ isInstalled: (folder: string) => boolean }>

const { isInstalled }: Installer = await import(new URL('../../scripts/install.js', import.meta.url).href)

const locked: Packages = {
  '': {},
  'node_modules/one': { integrity: 'sha512-one' },
  'node_modules/other-platform': { integrity: 'sha512-other', optional: true },
}

t.test('packages that npm has installed by the same lock file are not installed again', async (t) => {
  const folder = t.testdir()
  const write = (name: string, packages: Packages) =>
    writeFileSync(join(folder, name), JSON.stringify({ lockfileVersion: 3, packages }))
  write('package-lock.json', locked)
  t.notOk(isInstalled(folder), 'nothing is there')
  mkdirSync(join(folder, 'node_modules'))
  t.notOk(isInstalled(folder), 'npm has not finished')
  const cases: readonly (readonly [boolean, Packages, string])[] = [
    [true, locked, 'everything'],
    [true, { 'node_modules/one': { integrity: 'sha512-one' } }, 'all but a package of another platform'],
    [false, {}, 'a package is missing'],
    [false, { 'node_modules/one': { integrity: 'sha512-old' } }, 'a package of another version'],
  ]
  for (const [expected, packages, message] of cases) {
    write('node_modules/.package-lock.json', packages)
    t.equal(isInstalled(folder), expected, message)
  }
})

t.test('the gate, the drills and the pages name programs that the installer knows', async (t) => {
  const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
  const installer = fileURLToPath(new URL('../../scripts/install-tools.js', import.meta.url))
  const { status, stderr } = spawnSync(process.execPath, [installer, 'nothing'], { encoding: 'utf8' })
  t.equal(status, 2)
  const known = /^Names: (.*)$/m.exec(stderr)?.[1]?.split(', ') ?? []
  const pages = ['.ci/run', '.ci/cluster', '.github/workflows/release.yaml', 'test/README.md', 'docs/README.md']
  const named = pages.flatMap((path) =>
    [...read(path).matchAll(/install-tools\.js ((?:[a-z-]+ ?)+)/g)].flatMap(
      ([, names = '']) =>
        names
          .split(/ {2}|, /)[0]
          ?.split(' ')
          .filter((name) => name !== 'installs') ?? [],
    ),
  )
  t.ok(named.length > 12)
  t.same(
    [...new Set(named)].filter((name) => !known.includes(name)),
    [],
  )
})
