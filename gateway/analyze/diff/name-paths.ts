import type { Region } from '../../policy/regions.ts'
import { type PatternSegment, parsePattern } from '../../policy/route.ts'
import type { RoutePair } from './pairs.ts'

export function namePaths(regions: readonly Region[], routes: RoutePair): readonly string[] {
  const widest = regions.filter((region) => !regions.some((other) => other !== region && contains(other, region)))
  return widest.map((region) => `${region.host ?? ''}${nameSteps(region, routes)}`)
}

function contains(wide: Region, narrow: Region): boolean {
  if (wide.host !== undefined && wide.host !== narrow.host) return false
  const isLongEnough = wide.isOpen
    ? narrow.steps.length >= wide.steps.length
    : narrow.steps.length === wide.steps.length
  if (!isLongEnough || (narrow.isOpen && !wide.isOpen)) return false
  return wide.steps.every(({ text, isNamed }, index) => {
    const step = narrow.steps[index]
    if (isNamed) return step?.isNamed === true && step.text === text
    // Under a rest segment a trailing slash does not make another path.
    return step?.text !== '' || (wide.isOpen && index === wide.steps.length - 1)
  })
}

function nameSteps({ steps, isOpen }: Region, { old, new: fresh }: RoutePair): string {
  const patterns = [fresh, old].flatMap((route) => (route ? [parsePattern(route.path)] : []))
  return steps
    .map(({ text, isNamed }, index) => {
      if (isNamed) return `/${text}`
      if (isOpen && index === steps.length - 1) return '/*'
      return `/:${nameOf(patterns, index) ?? 'any'}`
    })
    .join('')
}

const nameOf = (patterns: readonly (readonly PatternSegment[])[], index: number): string | undefined =>
  patterns
    .map((pattern) => pattern[index])
    .find((segment): segment is Extract<PatternSegment, { kind: 'param' }> => segment?.kind === 'param')?.name
