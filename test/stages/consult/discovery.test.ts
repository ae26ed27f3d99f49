import t from 'tap'
import type { PdpAnswer } from '../../../gateway/stages/consult/answer.ts'
import { createDiscovery } from '../../../gateway/stages/consult/discovery.ts'
import { createSimulatedClock } from '../../support/simulated-clock.ts'

const url = 'https://pdp.example/tenant'
const hourMs = 3_600_000

const json = (document: object, status = 200): PdpAnswer => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: Buffer.from(JSON.stringify(document)),
})

const metadata = (path: string, more: object = {}): PdpAnswer =>
  json({ policy_decision_point: url, access_evaluation_endpoint: `https://pdp.example${path}`, ...more })

/** A discovery whose decision point answers as the test says, or not at all. */
function open(first: PdpAnswer | undefined) {
  const clock = createSimulatedClock()
  const asked: string[] = []
  let answer = first
  const ask = async (path: string): Promise<PdpAnswer> => {
    asked.push(path)
    if (!answer) throw new Error('no answer')
    return answer
  }
  const discovery = createDiscovery({ url, ask, ...clock })
  const find = (endpoint: 'evaluation' | 'evaluations' = 'evaluation') =>
    discovery.find(endpoint, 50).catch(({ message }: Error) => message)
  const say = (other: PdpAnswer | undefined): void => {
    answer = other
  }
  return { clock, asked, find, say }
}

t.test('metadata are read once an hour, at the place that AuthZEN names', async (t) => {
  const { clock, asked, find } = open(metadata('/first'))
  t.same(
    [await find(), await find(), await find('evaluations')],
    ['/first', '/first', 'the metadata have no access_evaluations_endpoint'],
  )
  t.same(asked, ['/.well-known/authzen-configuration/tenant'])
  await clock.pass(hourMs - 1)
  await find()
  t.equal(asked.length, 1)
  await clock.pass(1)
  await find()
  t.equal(asked.length, 2)
})

t.test('new addresses count, and so does their end, while silence ends nothing', async (t) => {
  const { clock, find, say } = open(metadata('/first'))
  const later = async (answer: PdpAnswer | undefined): Promise<string> => {
    say(answer)
    await clock.pass(hourMs)
    await find()
    return find()
  }
  t.equal(await find(), '/first')
  t.equal(await later(undefined), '/first', 'no answer')
  t.equal(await later(json({}, 503)), '/first', 'a failure')
  t.equal(await later(metadata('/second')), '/second')
  const moved = metadata('/x', { access_evaluation_endpoint: 'https://elsewhere.example/x' })
  t.match(await later(moved), /not a plain address at https:\/\/pdp\.example/)
  t.equal(await later(json({}, 404)), 'the status of the metadata is 404')
  t.equal(await later(metadata('/third')), '/third')
})

t.test('metadata that do not come are asked for twice a second, and not waited for beyond the deadline', async (t) => {
  const { clock, asked, find, say } = open(undefined)
  for (let count = 0; count < 9; count++) t.equal(await find(), 'no answer')
  t.equal(asked.length, 1)
  await clock.pass(500)
  await find()
  t.equal(asked.length, 2)
  say(metadata('/first'))
  await clock.pass(500)
  t.equal(await find(), '/first')
  const hanging = createDiscovery({ url, ask: () => new Promise(() => undefined), ...clock })
  hanging.refresh()
  const found = hanging.find('evaluation', 50).catch(({ message }: Error) => message)
  await clock.pass(50)
  t.equal(await found, 'the metadata have not come yet')
})
