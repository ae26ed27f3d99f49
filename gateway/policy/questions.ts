import type { RouteContent } from './file.ts'
import { listLevels, type PdpChoice } from './resource-kind.ts'
import type { GuardedResource, PdpQuestion, QuestionedResource } from './route.ts'

type Report = (path: readonly (string | number)[], message: string) => void

export function compileQuestions(
  { decision, require: required, access }: RouteContent,
  guarded: GuardedResource | undefined,
  refuse: Report,
): readonly PdpQuestion[] {
  if (access === 'public') return []
  const ability = required?.ability
  const questions: PdpQuestion[] = []
  const add = ({ pdp, action = ability }: PdpChoice, about: QuestionedResource, path: readonly string[]): void => {
    if (action === undefined) refuse(path, 'asks for no action: name one, or require an ability, which stands for it')
    else if (!questions.some((known) => isSameQuestion(known, { pdp, action, about })))
      questions.push({ pdp, action, about })
  }
  if (decision) {
    const about = readQuestioned(decision.resource, guarded, refuse)
    if (about) add({ pdp: decision.pdp, action: decision.action }, about, ['decision', 'action'])
  }
  if (guarded?.kind !== 'object') return questions
  for (const [level, { name, decision: choice }] of listLevels(guarded.object).entries())
    if (choice) add(choice, { type: name, from: 'guarded', level }, ['resource', 'kind'])
  return questions
}

const routeType = 'route'

function readQuestioned(
  { type, param }: NonNullable<NonNullable<RouteContent['decision']>['resource']> = {},
  guarded: GuardedResource | undefined,
  refuse: Report,
): QuestionedResource | undefined {
  if (param === undefined) {
    if (!guarded) return { type: type ?? routeType, from: 'route' }
    return { type: type ?? (guarded.kind === 'agent' ? 'agent' : guarded.object.name), from: 'guarded', level: 0 }
  }
  if (type !== undefined) return { type, from: 'path', param }
  refuse(['decision', 'resource'], `names a parameter and no type; name the type that the decision point knows`)
  return undefined
}

export const isSameQuestion = (one: PdpQuestion, other: PdpQuestion): boolean =>
  describeQuestion(one) === describeQuestion(other)

export function describeQuestion({ pdp, action, about }: PdpQuestion): string {
  const { type } = about
  switch (about.from) {
    case 'guarded':
      return `${pdp}: ${action} on ${type}${about.level === 0 ? '' : ` (ancestor ${about.level})`}`
    case 'path':
      return `${pdp}: ${action} on ${type} :${about.param}`
    case 'route':
      return `${pdp}: ${action} on ${type} of this id`
    default:
      return about satisfies never
  }
}
