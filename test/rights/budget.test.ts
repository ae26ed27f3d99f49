import { readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import * as budget from '../../gateway/rights/budget.ts'

const { paths, secondMs } = budget

for (const [name, path] of Object.entries(paths))
  t.test(`within a second is felt by ${name}`, async (t) => {
    const sum = Object.values(path).reduce((sum, ms) => sum + ms, 0)
    t.ok(sum > 0 && sum <= secondMs, `${Object.keys(path).join(' + ')} is ${sum} ms`)
  })

t.test('each part of a path is a constant of the budget under its own name', async (t) => {
  const constants: Readonly<Record<string, unknown>> = { ...budget }
  for (const [name, path] of Object.entries(paths))
    for (const [part, ms] of Object.entries(path)) t.equal(constants[part], ms, `${part} of ${name}`)
})

/** Rooms that feel a change of rights. */
const rooms = [
  'stages/recheck',
  'stages/consult',
  'directory/cache',
  'directory/logouts',
  'stages/authenticate/introspection',
  'listeners/signals',
  'listeners/decision/authzen',
]

const timeConstants = (text: string): readonly string[] =>
  [...text.matchAll(/^\s*(?:export )?const (\w*(?:Ms|Seconds|Minutes)) = [\d._]/gm)].map(([, name = '']) => name)

t.test('no other place has a constant of time of its own', async (t) => {
  t.same(timeConstants('const restMs = 1_000\nexport const aSeconds = 2\nconst nowMs = now()'), ['restMs', 'aSeconds'])
  for (const room of rooms)
    for (const file of readdirSync(`gateway/${room}`)) {
      if (file.endsWith('.ts'))
        t.same(timeConstants(readFileSync(`gateway/${room}/${file}`, 'utf8')), [], `${room}/${file}`)
    }
})
