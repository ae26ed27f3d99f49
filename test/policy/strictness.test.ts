import t from 'tap'
import type { PdpQuestion, Route } from '../../gateway/policy/route.ts'
import { isAtLeastAsStrict } from '../../gateway/policy/strictness.ts'
import { route } from '../support/open-exchange.ts'

const asking = (id: string, ...questions: readonly PdpQuestion[]): Route => ({ ...route, id, questions })

const about = (param: string, more: Partial<PdpQuestion> = {}): PdpQuestion => ({
  ...{ pdp: 'one', action: 'read', about: { type: 'thing', from: 'path', param } },
  ...more,
})
const ofRoute = about('', { about: { type: 'route', from: 'route' } })
const level = (number: number) => about('', { about: { type: 'thing', from: 'guarded', level: number } })

t.test('a route that asks less is less strict', async (t) => {
  for (const [name, own, other, expected] of [
    ['nothing for nothing', [], [], true],
    ['nothing for a question', [], [about('id')], false],
    ['a question for nothing', [about('id')], [], true],
    ['the same', [about('id')], [about('id')], true],
    ['more', [about('id'), ofRoute], [about('id')], true],
    ['less', [about('id')], [about('id'), level(0)], false],
    ['another parameter', [about('id')], [about('name')], false],
    ['another action', [about('id')], [about('id', { action: 'write' })], false],
    ['another decision point', [about('id')], [about('id', { pdp: 'two' })], false],
    ['another type', [about('id')], [about('id', { about: { type: 'file', from: 'path', param: 'id' } })], false],
    ['the same level', [level(1)], [level(1)], true],
    ['another level', [level(0)], [level(1)], false],
    ['each its own route', [ofRoute], [ofRoute], false],
  ] as const)
    t.equal(isAtLeastAsStrict(asking('a', ...own), asking('b', ...other)), expected, name)
})

t.test('parameters are told by their place where the caller says so', async (t) => {
  const [one, two] = [asking('a', about('id')), asking('b', about('name'))]
  t.equal(
    isAtLeastAsStrict(one, two, () => 3),
    true,
  )
  t.equal(
    isAtLeastAsStrict(one, two, ({ id }) => id),
    false,
  )
})
