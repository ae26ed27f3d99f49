import t from 'tap'
import { listDrills } from './list-drills.ts'
import { play } from './play.ts'

const skip = process.platform === 'linux' ? false : 'looks at processes by /proc'

t.test('the short set holds its limits', { skip }, async (t) => {
  const short = [...(await listDrills())].filter(([, { isShort }]) => isShort)
  t.ok(short.length >= 2)
  // Only the order of magnitude of times is judged, since the tests share their machine.
  const options = { seconds: 3, rate: 40, patience: 8, judgesLatency: false }
  for (const [name, drill] of short) {
    const { findings } = await play(drill, { ...options, notify: (sentence) => t.comment(sentence) })
    t.ok(findings.length > 15, name)
    // Beside other tests a process's pages say more of V8 than of the gateway: `.ci/drills` judges them.
    for (const { check, seen, limit, isMet } of findings)
      if (check !== 'memory at most') t.ok(isMet, `${name}: ${check}: ${seen}, wanted ${limit}`)
  }
})
