import t from 'tap'
import { foldProfile, type Profile, renderFlameGraph } from '../../bench/flame-graph.ts'

const node = (id: number, functionName: string, url: string, children: readonly number[] = []) => ({
  id,
  callFrame: { functionName, url, lineNumber: 0 },
  children,
})

const profile: Profile = {
  nodes: [
    node(1, '(root)', '', [2, 3, 5]),
    node(2, '(idle)', ''),
    node(3, 'handle', 'file:///x/dist/pipeline.js', [4]),
    node(4, 'write', 'node:net'),
    node(5, 'handle', 'file:///x/dist/pipeline.js', [6]),
    node(6, 'a<b', 'file:///x/node_modules/p/i.js'),
  ],
  samples: [2, 3, 4, 4, 6],
  timeDeltas: [1_000, 100, 200, 100, 600],
}

t.test('a profile becomes a tree of callers and callees, without idle time', async (t) => {
  const root = foldProfile(profile)
  t.equal(root.micros, 1_000)
  const [handle] = root.below.values()
  t.match(handle, { name: 'handle', place: 'dist/pipeline.js', micros: 1_000 })
  t.same(
    [...(handle?.below.values() ?? [])].map(({ name, micros }) => [name, micros]),
    [
      ['write', 300],
      ['a<b', 600],
    ],
  )
})

t.test('the picture names each frame, its share of the time, and its cost per request', async (t) => {
  const svg = renderFlameGraph(profile, 'A & B', 10)
  t.match(svg, /<title>A &amp; B<\/title>/)
  t.match(svg, /<title>handle dist\/pipeline\.js: 100\.0 %, 100\.00 µs a request<\/title>/)
  t.match(svg, /<title>a&lt;b node_modules\/p\/i\.js: 60\.0 %, 60\.00 µs a request<\/title>/)
  t.notMatch(svg, /idle/)
})
