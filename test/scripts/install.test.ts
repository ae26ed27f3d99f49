import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
