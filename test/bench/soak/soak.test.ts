import t from 'tap'
import { compareMoments, findExcesses, type SoakFigures } from '../../../bench/soak/judge.ts'
import { playScenes } from '../../../bench/soak/play.ts'
import { drawScene, type Scene } from '../../../bench/soak/scenes.ts'
import { drawNumbers } from '../../support/event-streams.ts'
import { until } from '../../support/gateway.ts'
import { startHttpUpstream } from '../../support/http-upstream.ts'

const sound: SoakFigures = {
  requests: 100,
  unexpected: 0,
  reloads: 1,
  baselineAtMinute: 5,
  rssBaselineBytes: 100,
  rssEndBytes: 110,
  rssRatio: 1.1,
  descriptorsBaseline: 50,
  descriptorsEnd: 70,
}

t.test('a figure above its limit is reported, and an unreadable one counts as above it', async (t) => {
  const limits = { rssRatio: 1.1 }
  t.same(findExcesses(sound, limits), [])
  t.equal(findExcesses({ ...sound, unexpected: 1 }, limits).length, 1)
  t.equal(findExcesses({ ...sound, rssRatio: 1.11 }, limits).length, 1)
  t.equal(findExcesses({ ...sound, rssRatio: Number.NaN }, limits).length, 1)
  t.equal(findExcesses({ ...sound, descriptorsEnd: 71 }, limits).length, 1)
})

t.test('moments are middles of many readings', async (t) => {
  const samples = Array.from({ length: 3_001 }, (_, index) => ({
    atMs: index,
    // A spike now and then is not growth.
    rssBytes: index % 50 === 0 ? 9_999 : index < 2_000 ? 100 : 105,
    descriptors: index < 2_000 ? 10 : 12,
  }))
  t.same(compareMoments(samples, 500, 3_000), {
    baseline: { rssBytes: 100, descriptors: 10 },
    end: { rssBytes: 105, descriptors: 12 },
  })
})

t.test('an answer that is not as it has to be is noticed, whatever is wrong with it', async (t) => {
  const upstream = await startHttpUpstream(t, (request, response) => {
    if (request.url === '/cut') response.socket?.destroy()
    else response.end('event: response.created\n\n')
  })
  const request = { method: 'GET', path: '/x', headers: {}, status: 200 } as const
  for (const [wanted, complaint] of [
    [{ ...request, status: 401 }, /200, not 401/],
    [{ ...request, ending: 'response.completed' }, /\d times GET \/x ended without response.completed/],
    [{ ...request, path: '/cut' }, /a scene: /],
    [request, undefined],
  ] as const) {
    const scene: Scene = { name: 'a scene', share: 1, play: (ask) => ask(wanted) }
    const play = playScenes(t, upstream.url, [scene], 100, () => 0)
    await until(() => play.requests() > 5, 'some requests')
    await play.stop()
    if (complaint) t.match(play.complaints()[0], complaint)
    t.equal(play.unexpected(), complaint ? play.requests() : 0)
  }
})

t.test('scenes are drawn by their shares', async (t) => {
  const draw = drawNumbers(3)
  const scenes = [0.2, 0.5, 0.3].map((share) => ({ name: String(share), share, play: async () => undefined }))
  const drawn = Array.from({ length: 10_000 }, () => drawScene(scenes, draw)?.name)
  for (const { name, share } of scenes) {
    const found = drawn.filter((other) => other === name).length / drawn.length
    t.ok(Math.abs(found - share) < 0.03, `${name}: ${found}`)
  }
})
