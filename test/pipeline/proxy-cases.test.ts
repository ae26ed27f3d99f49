import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { testVectors } from '../support/vectors.ts'

const repository = fileURLToPath(new URL('../../', import.meta.url))
const read = (file: string): string => readFileSync(`${repository}${file}`, 'utf8')

type Cover = Readonly<{ rows: string; file: string; title?: string }>

/** Cases, or parts of them, in other tests; `…` stands for a variable part of a title. */
const covers: readonly Cover[] = [
  {
    rows: 'A14',
    file: 'spec/backend',
    title: 'an upstream that says so gets the credential, unless Connection names it',
  },
  { rows: 'B11', file: 'pipeline/large-bodies', title: 'an upload passes whole, and is not held' },
  {
    rows: 'C15',
    file: 'pipeline/streams-quiet',
    title: 'a stream may be silent for longer than an ordinary answer, and then fails',
  },
  {
    rows: 'C20',
    file: 'spec/forwarding',
    title: 'a kept connection that closes under a … without a body costs one retry',
  },
  { rows: 'C20', file: 'spec/forwarding', title: '… is never sent twice' },
  { rows: 'C24', file: 'spec/errors', title: "an upstream's … passes unchanged on every surface" },
  {
    rows: 'D05',
    file: 'pipeline/streams-quiet',
    title: 'a quiet stream gets keep-alives between its events, and never in half of one',
  },
  { rows: 'D06', file: 'pipeline/streams-world', title: 'half an event of the worker never reaches the client' },
  { rows: 'D06', file: 'stages/relay/event-stream', title: '… in the middle of an event cuts it out' },
  {
    rows: 'D09',
    file: 'pipeline/many-streams',
    title: 'on SIGTERM each of a thousand streams is told, and the gateway exits with 0',
  },
  { rows: 'D08', file: 'pipeline/many-streams' },
  {
    rows: 'D10',
    file: 'spec/websocket',
    title: 'a handshake without a credential is 401, without the role 403, and neither reaches the backend',
  },
  {
    rows: 'D11',
    file: 'advisories/h2c-smuggling',
    title: 'no handshake: … reaches the upstream without Upgrade',
  },
  {
    rows: 'D12',
    file: 'advisories/websocket-smuggling',
    title: 'an upstream that answers … is relayed, and its connection is not joined',
  },
  {
    rows: 'D13',
    file: 'advisories/h2c-smuggling',
    title: 'an upgrade to h2c is an ordinary request, and its connection goes on',
  },
  { rows: 'E10', file: 'stages/route/table', title: 'the most specific pattern wins, in any order of the routes' },
  { rows: 'E10', file: 'spec/policy', title: 'the more specific of two routes decides, whichever is stricter' },
]

const is503 = 'the users’ clients try 500 and 503 again and nothing else of the kind, so a bad upstream is 503'

/** Cases in which this gateway differs from the expectation, or chooses among allowed outcomes, with the reason. */
const deviations: Readonly<Record<string, string>> = {
  A05: 'trailers end at the gateway (docs/explanation/decisions/README.md), so no upstream is told that they are welcome',
  A11: 'a trusted peer is believed about address, scheme and host; method and path are never taken from a header here',
  A12: 'Forwarded is not read at all; X-Forwarded-For is what the trusted proxies of this world write',
  B04: 'refused rather than repaired',
  B12: 'the rest of the body is read and dropped for up to 5 s, so that the client sees its 413',
  C04: 'interim answers are dropped',
  C05: is503,
  C09: is503,
  C11: `${is503}; the version of an answer is not told by undici, so 0.9 and 2.0 pass as 1.1`,
  C12: `${is503}; up to 64 KiB pass`,
  C13: is503,
  C14: is503,
  C20: is503,
  C22: is503,
}

const rowPattern = /\b[A-E]\d\d\b/g
const rowsOf = (text: string): readonly string[] => text.match(rowPattern) ?? []

/** The cases that titles of the files beside this one begin with. */
const driven = readdirSync(`${repository}test/pipeline`)
  .filter((file) => /^proxy-(?!cases).*\.test\.ts$/.test(file))
  .flatMap((file) => [...read(`test/pipeline/${file}`).matchAll(/['"`]((?:[A-E]\d\d ?)+): /g)])
  .flatMap(([, rows = '']) => rowsOf(rows))

const answered = new Set([...driven, ...covers.flatMap(({ rows }) => rowsOf(rows))])

testVectors(t, 'proxy/cases.md', 'every published case is run here or in another test', (t, text: string) => {
  const rows = [...text.matchAll(/^\| ([A-E]\d\d) \|/gm)].map(([, row = '']) => row)
  t.ok(rows.length > 60)
  t.same(
    rows.filter((row) => !answered.has(row)),
    [],
    'every row has its test',
  )
  t.same(
    [...answered, ...Object.keys(deviations)].filter((row) => !rows.includes(row)),
    [],
    'and every test its row',
  )
})

for (const { rows, file, title } of covers) {
  const path = [`test/${file}.test.ts`, `test/${file}.gate.ts`].find((path) => existsSync(repository + path)) ?? file
  t.test(`${rows}: ${path} has its test`, async (t) => {
    const source = read(path)
      .replace(/test\(\s+/g, 'test(')
      .replace(/\$\{[^}]*\}/g, '…')
    if (title === undefined) return
    t.ok(
      ["'", '"', '`'].some((quote) => source.includes(`test(${quote}${title}${quote},`)),
      title,
    )
  })
}

t.test('a case that is run is not excused as well, unless a part of it is elsewhere', async (t) => {
  const twice = new Set(covers.flatMap(({ rows }) => rowsOf(rows)).filter((row) => driven.includes(row)))
  t.same([...twice].sort(), ['A14', 'C15'])
})
