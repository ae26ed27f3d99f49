import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { lackOf, makeFolder, repository, run, tool } from '../support/deploy.ts'
import { testUnlessLacking } from '../support/lacks.ts'

const script = join(repository, 'scripts/release.js')
const { version }: Readonly<{ version: string }> = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'))

interface Release {
  readonly readNotes: (changelog: string, version: string) => Readonly<{ isDated: boolean; text: string }>
}
const { readNotes }: Release = await import(new URL('../../scripts/release.js', import.meta.url).href)

t.test('the notes are the section of the version, or what is not yet released', async (t) => {
  const changelog =
    '# Changelog\n\n## [Unreleased]\n\n- b\n\n## [1.0.0] - 2026-01-31\n\n### Added\n\n- a\n\n## [0.9.0]\n\n- x\n'
  t.same(readNotes(changelog, '1.0.0'), { isDated: true, text: '### Added\n\n- a' })
  t.same(readNotes(changelog, '1.1.0'), { isDated: false, text: '- b' })
  t.same(readNotes(changelog, '0.9.0'), { isDated: false, text: '- x' }, 'a heading without its date')
})

testUnlessLacking(
  t,
  'a dry run makes package, chart, SBOM and notes, and digests of them all',
  async (t) => {
    const out = makeFolder(t)
    const { code, stdout, stderr } = await run(process.execPath, [script, '--dry-run', '--out', out])
    t.equal(code, 0, stderr)
    t.match(stdout, `[x] version ${version} is everywhere`)
    const digests = readFileSync(join(out, 'SHA256SUMS'), 'utf8')
    t.same(
      digests.split('\n').map((line) => line.replace(/^[0-9a-f]{64} {2}/, '')),
      [`sallyport-${version}.tgz`, `sallyport-chart-${version}.tgz`, 'sbom.cdx.json', 'notes.md', ''],
    )
    const check = await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: out })
    t.equal(check.code, 0, check.stderr)
    const { stdout: packed } = await run('tar', ['--list', '--file', join(out, `sallyport-${version}.tgz`)])
    for (const file of ['dist/gateway/main.js', 'npm-shrinkwrap.json', 'config/gateway.yaml'])
      t.ok(packed.split('\n').includes(`package/${file}`), file)
    const shown = await run(tool.helm, ['show', 'chart', join(out, `sallyport-chart-${version}.tgz`)])
    t.match(shown.stdout, `\nversion: ${version}\n`)
    t.equal(JSON.parse(readFileSync(join(out, 'sbom.cdx.json'), 'utf8')).bomFormat, 'CycloneDX')
    t.match(readFileSync(join(out, 'notes.md'), 'utf8'), /^### .*\n\n(?:#### .*\n\n)?- [\s\S]*### Runs on\n\n- Node /)
  },
  lackOf('helm'),
)

t.test('a commit without its tag is not released', async (t) => {
  const out = makeFolder(t)
  // Without git there is neither a commit nor a tag.
  const { code, stdout, stderr } = await run(process.execPath, [script, '--out', out], { env: { PATH: '' } })
  t.equal(code, 1)
  t.match(stdout, `[ ] v${version} names this commit: git tag --sign v${version}`)
  t.match(stderr, /is not ready/)
  t.throws(() => readFileSync(join(out, 'SHA256SUMS')), { code: 'ENOENT' })
})
