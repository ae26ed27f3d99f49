import type { Problem } from './configuration-error.ts'
import type { PolicyFile } from './file.ts'

export type DeclaredOrganization = Readonly<{
  id: number
  slug: string
  accountType: 'individual' | 'team' | 'enterprise'
  source: 'claims'
}>

export type DeclaredOrganizations = Readonly<{
  byId: ReadonlyMap<number, DeclaredOrganization>
  bySlug: ReadonlyMap<string, DeclaredOrganization>
  byClaim: ReadonlyMap<string, ReadonlyMap<string, DeclaredOrganization>>
}>

type Place = (string | number)[]

export function compileOrganizations(files: readonly PolicyFile[], problems: Problem[]): DeclaredOrganizations {
  const bySlug = new Map<string, DeclaredOrganization>()
  const byClaim = new Map<string, Map<string, DeclaredOrganization>>()
  const byId = new Map<number, DeclaredOrganization>()
  for (const { content, problemAt } of files)
    for (const [index, { id, slug, accountType = 'team', claims = [] }] of (content.organizations ?? []).entries()) {
      const report = (path: Place, message: string): void => {
        problems.push(problemAt(['organizations', index, ...path], `organization "${slug}": ${message}`))
      }
      const organization: DeclaredOrganization = Object.freeze({ id, slug, accountType, source: 'claims' })
      if (byId.has(id)) report(['id'], `the id ${id} is taken; give each organization its own`)
      if (bySlug.has(slug)) report(['slug'], 'the slug is taken; give each organization its own')
      byId.set(id, organization)
      bySlug.set(slug, organization)
      for (const [at, { issuer, value }] of claims.entries()) {
        const values = byClaim.get(issuer) ?? new Map<string, DeclaredOrganization>()
        byClaim.set(issuer, values)
        const other = values.get(value)
        if (other)
          report(
            ['claims', at],
            `the value "${value}" of this issuer names "${other.slug}" too; keep it in one of them`,
          )
        values.set(value, organization)
      }
    }
  return Object.freeze({ byId, bySlug, byClaim })
}

export type StoredOrganization = Readonly<{ id: number; slug: string; externalId?: string | null }>

export function mayBeTakenFor(
  { id, slug, externalId }: StoredOrganization,
  { byId, bySlug }: Pick<DeclaredOrganizations, 'byId' | 'bySlug'>,
): boolean {
  const [name, key] = [slug, externalId ?? '']
  if (byId.has(id) || Math.max(name.length, key.length) > mostCharacters) return true
  return bySlug.has(foldName(name)) || byId.has(Number(foldName(key).replaceAll('_', '')))
}

/** Folding takes time by length, and slugs are short. A longer name counts as taken, which refuses and never admits. */
const mostCharacters = 1_000

/** Folds as a collation without case and accents does. Marks go first, since sorting them takes quadratic time. */
const foldName = (text: string): string =>
  text
    .replace(ignored, '')
    .normalize('NFKD')
    .replace(ignored, '')
    .toUpperCase()
    .toLowerCase()
    .replace(struck, (letter) => plainLetters[letter] ?? letter)
    .trim()

const ignored = /[\p{M}\p{C}\p{DI}]/gu

const plainLetters: Readonly<Record<string, string>> = { æ: 'ae', đ: 'd', ħ: 'h', ł: 'l', ø: 'o', œ: 'oe', ŧ: 't' }

const struck = /[æđħłøœŧ]/g
