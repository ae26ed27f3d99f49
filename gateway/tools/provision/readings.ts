import { UsageError } from '../../configuration/failure.ts'
import type { AccountType } from '../../directory/directory.ts'
import type { OrganizationReference } from '../../directory/postgres/provision/organizations.ts'
import type { PersonReference } from '../../directory/postgres/provision/people.ts'
import type { Roles } from '../../policy/role.ts'
import { parseId } from '../../stages/resolve/organization-id.ts'
import { readId } from '../cli/directory.ts'

export type Common = Readonly<{ config: string; json?: boolean }>

export type Page = Readonly<{ after?: string }>

export type PersonOptions = Readonly<{ user?: string; issuer?: string; subject?: string; email?: string }>

/** A usual `varchar(255)` of an adopted directory takes it. */
const longestText = 255

/** Visible characters alone, so that two names that look alike are alike. */
export function readText(what: string, text: string): string {
  const isPlain = !/[\p{Cc}\p{Bidi_Control}\u2028\u2029]/u.test(text) && text.trim() === text
  if (isPlain && text.length > 0 && text.length <= longestText) return text
  throw new UsageError(
    `${what} must be 1 to ${longestText} characters, without control characters and without spaces around it`,
  )
}

export const readExternalId = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : readText('--external-id', text)

export function readSlug(what: string, text: string): string {
  if (text.length <= 100 && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(text) && /[a-z]/.test(text)) return text
  throw new UsageError(
    `${what} must be lower-case letters, digits and single hyphens, with a letter, such as acme-europe`,
  )
}

export function readOrganization(what: string, text: string): OrganizationReference {
  const id = parseId(text)
  return id === undefined ? { slug: readText(what, text) } : { id }
}

export function readEmail(what: string, text: string): string {
  const email = readText(what, text)
  if (/^[^\s@]+@[^\s@]+$/.test(email)) return email
  throw new UsageError(`${what} must be an address, such as ada@acme.example`)
}

export function readPerson(options: PersonOptions, prefix = '--'): PersonReference {
  const { user, issuer, subject, email } = options
  const ways = [user, issuer ?? subject, email].filter((way) => way !== undefined)
  if (ways.length !== 1)
    throw new UsageError(
      `name the user by ${prefix}user, by ${prefix}issuer and ${prefix}subject, or by ${prefix}email`,
    )
  if (user !== undefined) return { id: readId(`${prefix}user`, user) }
  if (email !== undefined) return { email: readEmail(`${prefix}email`, email) }
  const identity = readIdentity(options, prefix)
  if (!identity) throw new UsageError(`${prefix}issuer and ${prefix}subject belong together`)
  return identity
}

export function readIdentity({ issuer, subject }: Pick<PersonOptions, 'issuer' | 'subject'>, prefix = '--') {
  if (issuer === undefined && subject === undefined) return undefined
  if (issuer === undefined || subject === undefined)
    throw new UsageError(`${prefix}issuer and ${prefix}subject belong together`)
  return { issuer: readText(`${prefix}issuer`, issuer), subject: readText(`${prefix}subject`, subject) }
}

export function readRole(what: string, role: string, roles: Roles): string {
  if (roles.organization.has(role)) return role
  throw new UsageError(`${what} must be a role of the policy: ${[...roles.organization.keys()].join(', ')}`)
}

export const readAfter = ({ after }: Page): number => (after === undefined ? 0 : readId('--after', after))

/** A password in it would be shown by lists. */
export function readBaseUrl(what: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isPlain =
    url && ['http:', 'https:'].includes(url.protocol) && `${url.username}${url.password}${url.hash}` === ''
  if (isPlain) return readText(what, text)
  throw new UsageError(`${what} must be an http or https address without user and password, such as https://eu.example`)
}

const accountTypes: readonly string[] = ['individual', 'team', 'enterprise'] satisfies readonly AccountType[]

export function readAccountType(what: string, text: string): AccountType {
  if (accountTypes.includes(text)) return text as AccountType
  throw new UsageError(`${what} must be ${accountTypes.join(', ')}`)
}

export function readIssuer(
  options: Pick<PersonOptions, 'issuer' | 'subject'>,
  issuers: ReadonlySet<string>,
  prefix = '--',
) {
  const identity = readIdentity(options, prefix)
  if (!identity || issuers.has(identity.issuer)) return identity
  throw new UsageError(`${prefix}issuer must be an issuer of the configuration: ${[...issuers].join(', ')}`)
}
