import type { RouteContent } from './file.ts'
import { type PathRewrite, type PatternSegment, parsePattern } from './route.ts'

type Part = PathRewrite['parts'][number]

type Report = (path: readonly (string | number)[], message: string) => void

export function compileRewrite(row: RouteContent, basePath: string, refuse: Report): PathRewrite | undefined {
  const { stripPrefix, rewrite, match } = row
  if (rewrite !== undefined && stripPrefix !== undefined) {
    refuse(['rewrite'], 'beside stripPrefix; write the whole path in rewrite, or leave it out')
    return undefined
  }
  const pattern = parsePattern(match.path)
  const base = basePath.slice(1).split('/').filter(Boolean).map(toText)
  if (rewrite !== undefined) return compileWhole(rewrite, pattern, base, refuse)
  if (stripPrefix !== undefined) return compileStrip(stripPrefix, match.path, pattern, base, refuse)
  if (base.length === 0) return undefined
  return { path: `${basePath}${match.path}`, parts: [...base, { kind: 'rest', from: 0 }], strippedPrefix: undefined }
}

export function rewritePath({ parts }: PathRewrite, path: string): string {
  const received = path.slice(1).split('/')
  let rewritten = ''
  for (const part of parts) {
    if (part.kind === 'text') rewritten += `/${part.text}`
    else if (part.kind === 'segment') rewritten += `/${received[part.index] ?? ''}`
    else rewritten += `/${received.slice(part.from).join('/')}`
  }
  return rewritten
}

export const isSameRewrite = (one: PathRewrite | undefined, other: PathRewrite | undefined, path: string): boolean =>
  (one ? rewritePath(one, path) : path) === (other ? rewritePath(other, path) : path)

const toText = (text: string): Part => ({ kind: 'text', text })

function compileWhole(
  path: string,
  pattern: readonly PatternSegment[],
  base: readonly Part[],
  refuse: Report,
): PathRewrite | undefined {
  try {
    const written = path.slice(1).split('/')
    const parts = parsePattern(path).map((segment, index): Part => {
      if (segment.kind === 'literal') return toText(readText(written[index] ?? '', pattern))
      const from = pattern.findIndex((other) => isSame(other, segment))
      if (from < 0) throw new Error(`"${written[index]}" is not in the path of the route`)
      return segment.kind === 'rest' ? { kind: 'rest', from } : { kind: 'segment', index: from }
    })
    return { path: `${nameBase(base)}${path}`, parts: [...base, ...parts], strippedPrefix: undefined }
  } catch (error) {
    refuse(['rewrite'], (error as Error).message)
    return undefined
  }
}

function compileStrip(
  prefix: string,
  path: string,
  pattern: readonly PatternSegment[],
  base: readonly Part[],
  refuse: Report,
): PathRewrite | undefined {
  const written = prefix.slice(1).split('/')
  const isLeading = written.every((text, index) => {
    const segment = pattern[index]
    return text !== '' && segment?.kind === 'literal' && path.split('/')[index + 1] === text
  })
  if (!isLeading || !prefix.startsWith('/') || !written.every((text) => plainText.test(text))) {
    refuse(['stripPrefix'], 'must be the first segments of the path of the route, literal ones alone, such as /api')
    return undefined
  }
  const left = path.split('/').slice(written.length + 1)
  const parts: readonly Part[] = [...base, left.length === 0 ? toText('') : { kind: 'rest', from: written.length }]
  return { path: `${nameBase(base)}/${left.join('/')}`, parts, strippedPrefix: prefix }
}

const nameBase = (base: readonly Part[]): string =>
  base.map((part) => (part.kind === 'text' ? `/${part.text}` : '')).join('')

const isSame = (one: PatternSegment, other: PatternSegment): boolean =>
  one.kind === other.kind && (one.kind !== 'param' || (other.kind === 'param' && one.name === other.name))

/** Read alike by all servers: no escape, no path parameter, and no name of dots alone. */
const plainText = /^(?!\.+$)[A-Za-z0-9._~!$&'()+,=@:-]+$/

function readText(text: string, pattern: readonly PatternSegment[]): string {
  // It would reach the backend as it stands. `models:predict`, which names no parameter, is a path like any other.
  const named = pattern.find((segment) => segment.kind === 'param' && text.includes(`:${segment.name}`))
  if (named) throw new Error(`"${text}" has a parameter behind other text; a parameter is a whole segment`)
  if (text !== '' && !plainText.test(text)) throw new Error(`"${text}" has a sign that servers read in several ways`)
  return text
}
