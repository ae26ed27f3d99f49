import type { OrganizationRole } from './role.ts'

export type ResourceKind = Readonly<{
  name: string
  fingerprint: string
  idType: ResourceIdType
  hasOwner: boolean
  hasVisibility: boolean
  privateRole: OrganizationRole | undefined
  parent: ResourceKind | undefined
  decision?: PdpChoice | undefined
}>

export type PdpChoice = Readonly<{ pdp: string; action: string | undefined }>

export type ResourceIdType = 'integer' | 'bigint' | 'uuid' | 'text'

export type ResourceKinds = ReadonlyMap<string, ResourceKind>

export const listLevels = (kind: ResourceKind): readonly ResourceKind[] => [
  kind,
  ...(kind.parent ? listLevels(kind.parent) : []),
]

const mostOfType = { integer: 2_147_483_647n, bigint: 9_223_372_036_854_775_807n } as const

/** Whether the database would show the id in these very characters. Any other spelling names nothing. */
export function isResourceId(idType: ResourceIdType, text: string): boolean {
  switch (idType) {
    case 'integer':
    case 'bigint':
      return /^[1-9]\d{0,18}$/.test(text) && BigInt(text) <= mostOfType[idType]
    case 'uuid':
      return /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(text)
    case 'text':
      return /^[A-Za-z0-9._~-]{1,128}$/.test(text)
    default:
      idType satisfies never
      return false
  }
}
