import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { implementers, leaves, owners, rooms, starters, wiring } from './import-rights.ts'
import { listSources, placeSource, readSource, roomOf } from './support/sources.ts'

/** Boot alone knows the implementations of the directory; all other folders see the interface. */
const interfaceFiles: Readonly<Record<string, readonly string[]>> = {
  directory: ['directory/directory.ts', 'directory/change.ts', 'directory/logout.ts'],
  http: ['http/engine.ts', 'http/exchange.ts', 'http/prepared-headers.ts'],
}

type Import = Readonly<{ from: string; specifier: string; isType: boolean }>

function importsOf(file: string, source: string): readonly Import[] {
  const statements = source.matchAll(/^(?:import|export)\s+(type\s+)?[^'"]*?from\s+'([^']+)'|import\('([^']+)'\)/gm)
  return [...statements].map(([, type, from, dynamic]) => ({
    from: file,
    specifier: from ?? dynamic ?? '',
    isType: type !== undefined,
  }))
}

/** Every rule that an import breaks, as sentences. */
function violationsOf({ from, specifier }: Import): readonly string[] {
  const room = roomOf(from)
  const complain = (rule: string): readonly string[] => [`${from} imports ${specifier}: ${rule}`]
  if (!specifier.startsWith('.')) return checkPackage(room, specifier, complain)
  const target = resolveImport(from, specifier)
  const targetRoom = roomOf(target)
  if (targetRoom === room) return []
  if (targetRoom === 'boot' && !starters.includes(room)) return complain('only what starts a gateway imports boot')
  if (targetRoom === 'demo' && room !== 'main.ts') return complain('only main.ts imports the demo')
  const isPrivate = interfaceFiles[targetRoom]?.includes(target) === false
  if (isPrivate && !wiring.includes(room) && !implementers.includes(room))
    return complain('this is an implementation, known to boot alone')
  if (wiring.includes(room) || room === 'main.ts') return []
  // The listeners' two handlers put the stages together.
  if (room === 'pipeline.ts' || room === 'decision') return []
  if (room === 'authorize' && !leaves.includes(targetRoom) && !rooms.authorize?.includes(targetRoom))
    return complain('authorize is pure')
  if (leaves.includes(targetRoom) && !(leaves.includes(room) && room === 'errors')) return []
  return rooms[room]?.includes(targetRoom) ? [] : complain(`${room} may not import ${targetRoom}`)
}

function checkPackage(room: string, specifier: string, complain: (rule: string) => readonly string[]) {
  if (room === 'authorize') return complain('authorize is pure: no package, no node:')
  const isWire = /^node:(?:http|https|http2|net|tls)$/.test(specifier)
  // node:net's address arithmetic (BlockList, isIP) opens no socket.
  if (isWire && !['http', 'demo'].includes(room) && !(room === 'receive' && specifier === 'node:net'))
    return complain('only http knows the wire')
  const name = specifier.startsWith('@') ? specifier.split('/').slice(0, 2).join('/') : (specifier.split('/')[0] ?? '')
  if (specifier.startsWith('node:') || room === 'demo') return []
  return owners[name]?.includes(room)
    ? []
    : complain(`${name} belongs to ${owners[name]?.join(' and ') ?? 'no folder yet'}`)
}

const resolveImport = (from: string, specifier: string): string =>
  new URL(specifier, `file:///${placeSource(from)}`).pathname.slice(1).replace(/^gateway\//, '')

const files = listSources()

t.test('every import stays within its room’s rights', async (t) => {
  t.ok(files.length > 50, 'the sources were found')
  const violations = files.flatMap((file) => importsOf(file, readSource(file)).flatMap((found) => violationsOf(found)))
  t.same(violations, [])
})

t.test('every folder has its imports listed', async (t) => {
  const folders = new Set(files.filter((file) => file.includes('/')).map(roomOf))
  t.same(
    [...folders].filter((folder) => !(folder in rooms) && !wiring.includes(folder) && folder !== 'decision'),
    [],
  )
})

/** The output of `npm run house`, with the names behind each figure. */
const measured = spawnSync(
  process.execPath,
  [fileURLToPath(new URL('../scripts/house.js', import.meta.url)), '--json'],
  { encoding: 'utf8' },
)
const house = JSON.parse(measured.stdout)

t.test(
  'the tree has no cycle, no arrow upward, no type name twice and no function of more than a screen',
  async (t) => {
    t.equal(measured.stderr, '')
    t.ok(house.files > 50, 'the sources were found')
    t.same(house.cycles, [])
    t.same(house.upwardArrows, [])
    t.same(house.duplicateNames, [])
    t.same(house.longFunctions, [], 'a function fits a screen')
    t.same(house.unplacedFiles, [], 'every folder has a floor in scripts/measure-house.js')
  },
)

t.test('each file over 100 lines has a comment', async (t) => {
  t.same(house.uncommentedFiles, [])
  t.ok(house.commentShare > 0.02 && house.commentShare < 0.5, 'comments were found', { share: house.commentShare })
})

/** Pages grow with features: a change that needs another one raises this in its own commit, with a line of its reason. */
const mostPages = 76
/** A reporter reads it whole. More promises, not more words of each, are a reason to raise it. */
const mostWordsOfSecurity = 1_000

t.test('documents stay few: a page for each task, and a SECURITY.md that is read whole', async (t) => {
  t.ok(house.documentPages > 50, 'the pages were found')
  t.ok(house.documentPages <= mostPages, `${house.documentPages} pages`)
  t.ok(house.securityWords > 300 && house.securityWords <= mostWordsOfSecurity, `${house.securityWords} words`)
})

/** A helper stands beside its test until three others import it. More surfaces to start are a reason to raise this. */
const mostSupportFiles = 110

t.test('support holds what many tests share, and a helper of one or two stands beside them', async (t) => {
  t.ok(house.supportFiles > 50, 'the helpers were found')
  t.ok(house.supportFiles <= mostSupportFiles, `${house.supportFiles} files`)
})

/** The way of a request, the floors below and above it, and the two files that hold them together. */
const mostEntries = 14

t.test('gateway/ is taken in at first sight', async (t) => {
  t.ok(house.entries.length > 5 && house.entries.length <= mostEntries, house.entries.join(' '))
})

/** Those that there are isolate a package, a thread's entry or purity. */
const mostSmallFiles = 25
const largestShare = 0.15

t.test('few small files have one importer, and no folder holds more than its share of the files', async (t) => {
  t.ok(house.smallFiles.length <= mostSmallFiles, 'a small file stays with its only importer', {
    found: house.smallFiles,
  })
  t.ok(house.largestFolder.share <= largestShare, 'a folder is one subject', { found: house.largestFolder })
})

/** The first five files of migrations. A migration after them raises this, with a line of reason. */
const mostSqlLines = 1_000

t.test('the schema is short enough to be read', async (t) => {
  t.ok(house.sqlLines > 500 && house.sqlLines <= mostSqlLines, `${house.sqlLines} lines`)
})

t.test('a change of rights has one home: its times, its log and its waiting room', async (t) => {
  t.same(house.timeConstants, [], 'a time of the second stands in rights/budget.ts')
  t.same(house.heardAnswers, ['rights/heard.ts'], 'one log says whether anything was heard since')
  // A query of the lane serves many tokens at once, so that none of them waits for a place of its own.
  t.same(house.waitingRooms, ['directory/lookups/token-lane.ts', 'rights/waiting.ts'])
})

t.test('a planted violation of each rule is found', async (t) => {
  const planted: readonly (readonly [file: string, source: string])[] = [
    ['stages/receive/x.ts', "import { decide } from '../authorize/decide.ts'"],
    ['base/errors/x.ts', "import type { Route } from '../../policy/route.ts'"],
    ['policy/x.ts', "import { openDatabase } from '../directory/postgres/pool.ts'"],
    ['stages/endpoints/x.ts', "import { openDatabase } from '../../directory/postgres/pool.ts'"],
    ['stages/forward/x.ts', "import { createSender } from '../../engine/wire/send.ts'"],
    ['stages/authorize/x.ts', "import { randomUUID } from 'node:crypto'"],
    ['stages/authorize/x.ts', "import { SignJWT } from 'jose'"],
    ['stages/locate/x.ts', "import { request } from 'node:http'"],
    ['stages/relay/x.ts', "import { Pool } from 'undici'"],
    ['stages/endpoints/x.ts', "import pg from 'pg'"],
    ['pipeline.ts', "import { startGateway } from './run/boot/gateway.ts'"],
    ['run/boot/x.ts', "import { runDemo } from '../../../demo/demo.ts'"],
    ['observe/x.ts', "import { createAdmin } from '../listeners/admin/listener.ts'"],
    ['run/reload/x.ts', "import { openDoors } from '../boot/gateway.ts'"],
    ['analyze/x.ts', "import { openDatabase } from '../directory/postgres/pool.ts'"],
    ['stages/relay/x.ts', "import { serve } from '../../tools/cli/serve.ts'"],
    ['stages/relay/x.ts', "import { showPage } from '../../../console/page.ts'"],
    ['run/boot/x.ts', "import leftPad from 'left-pad'"],
    ['run/boot/x.ts', "const { runDemo } = await import('../../../demo/demo.ts')"],
  ]
  for (const [file, source] of planted)
    t.equal(importsOf(file, source).flatMap((found) => violationsOf(found)).length, 1, `${file}: ${source}`)
})

/** They ask the gateway itself, over loopback or from its own console. */
const ownFetch = ['console/script.ts', 'tools/cli/admin.ts', 'tools/cli/healthcheck.ts']

t.test('foreign servers are asked by the shipped undici, and not by the copy that Node brings', async (t) => {
  const read = (file: string): string => readSource(file).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '')
  const found = files.filter(
    (file) => !file.startsWith('demo/') && /(?<![\w.'"]|typeof )fetch(?=[(),])/.test(read(file)),
  )
  t.same(found.sort(), ownFetch)
})

t.test('authorize waits for nothing and reads no clock', async (t) => {
  for (const file of files.filter((name) => roomOf(name) === 'authorize')) {
    const source = readSource(file)
    t.notMatch(source, /\bawait\b|\basync\b|Date\.|new Date|performance\.|Math\.random/, file)
  }
})

/** Files that hand the target to `stages/receive/`, or serve a listener without routes. */
const targetReaders = [
  'pipeline.ts',
  'listeners/admin/listener.ts',
  'run/boot/gateway.ts',
  'stages/recheck/judge-again.ts',
  'listeners/signals/signals.ts',
]

t.test('no file past receive reads the raw target', async (t) => {
  for (const file of files.filter((name) => !['decision', 'demo', 'http', 'receive'].includes(roomOf(name)))) {
    if (targetReaders.includes(file)) continue
    t.notMatch(readSource(file), /request\.url\b|exchange\.target\b/, file)
  }
})

t.test('only the renderer knows the shapes of errors', async (t) => {
  for (const file of files.filter((name) => !['demo', 'errors'].includes(roomOf(name))))
    t.notMatch(readSource(file), /success: (?:false|true)|\bdetail:/, file)
})
