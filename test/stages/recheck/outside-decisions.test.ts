import t from 'tap'
import type { Consultation } from '../../../gateway/stages/consult/compose.ts'
import type { OpenExchange } from '../../../gateway/stages/recheck/open-exchange.ts'
import { OutsideDecisions } from '../../../gateway/stages/recheck/outside-decisions.ts'

const question = (pdp: string, body = 'may 7 read'): Consultation => ({
  groups: [{ pdp, body, places: [0] }],
  count: 1,
  owner: 'organization 1',
  tags: [],
  expiresAtMs: undefined,
})

function createFixture(answer: () => Promise<boolean> = async () => true) {
  const asked: Consultation[] = []
  let settled = 0
  const outside = new OutsideDecisions(
    {
      consultAgain: async (about) => {
        asked.push(about)
        return answer()
      },
      recheckMsOf: () => 60_000,
      shareOf: () => 100,
      monotonicMs: () => 1_000,
      longestUnknownMs: 60_000,
      isAwaited: () => false,
    },
    () => t.fail('an exchange ended'),
  )
  const opened = {
    consultation: question('one'),
    openedAtMs: 900,
    isNamed: false,
    settlePending: () => void settled++,
  }
  const open = opened as Partial<OpenExchange> as OpenExchange // no more of it is used
  const judge = (about: Consultation): number => {
    opened.consultation = about
    outside.noteJudged(open)?.catch(t.threw)
    return asked.length
  }
  return { judge, look: () => outside.look(open, 1_000), countSettled: () => settled }
}

t.test('facts that were read again ask nothing new, and another decision point or question is asked at once', (t) => {
  const { judge, look } = createFixture()
  look()
  t.equal(judge(question('one')), 0, 'the same')
  t.equal(judge(question('other')), 1, 'another decision point')
  t.equal(judge(question('other')), 1, 'the same again')
  t.equal(judge(question('other', 'may 7 write')), 2, 'another question')
  const two = question('other', 'may 7 write')
  t.equal(judge({ ...two, groups: [...two.groups, ...question('third').groups], count: 2 }), 3, 'one more')
  t.equal(judge(two), 4, 'one less')
  t.end()
})

t.test('an exchange that is judged before anyone looked at it is asked about', (t) => {
  const { judge } = createFixture()
  t.equal(judge(question('other')), 1)
  t.end()
})

t.test('a decision is settled by the yes to its own question alone', async (t) => {
  const answers = [Promise.reject(new Error('planted')), Promise.resolve(true)]
  const { judge, look, countSettled } = createFixture(async () => (await answers.shift()) ?? false)
  look()
  judge(question('one'))
  t.equal(countSettled(), 1, 'the opening has the answer')
  judge(question('one', 'may 7 write'))
  await new Promise(setImmediate)
  judge(question('one', 'may 7 write'))
  t.equal(countSettled(), 1, 'the question failed')
  judge(question('other'))
  await new Promise(setImmediate)
  t.equal(countSettled(), 2)
  judge(question('other'))
  t.equal(countSettled(), 3, 'facts that were read again ask the same')
})
