import { GatewayError } from '../errors/gateway-error.ts'

const largestId = 2_147_483_647

/** A positive decimal integer without sign or leading zero, up to PostgreSQL's int4; undefined for anything else. */
export function parseId(text: string): number | undefined {
  if (!/^[1-9]\d{0,9}$/.test(text)) return undefined
  const id = Number(text)
  return id <= largestId ? id : undefined
}

/** The organization that `x-organization-id` names (SPEC section 3.1); undefined when the header is absent. */
export function readOrganizationId(lines: readonly string[]): number | undefined {
  const [value] = lines
  if (value === undefined) return undefined
  const id = lines.length === 1 ? parseId(value) : undefined
  if (id === undefined) throw new GatewayError('invalid_organization_id')
  return id
}

/** The organization that the cookie names, by the same rules; an empty value is an absent one. */
export function readOrganizationCookie(cookieLines: readonly string[]): number | undefined {
  if (cookieLines.length === 0) return undefined
  const values = cookieLines
    .flatMap((line) => line.split(';'))
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith('current-org-id='))
    .map((pair) => pair.slice('current-org-id='.length))
  if (values.length > 1) throw new GatewayError('invalid_organization_id')
  const [value = ''] = values
  return value === '' ? undefined : readOrganizationId([value])
}
