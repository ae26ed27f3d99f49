import { GatewayError } from '../../base/errors/gateway-error.ts'

export type HeadLimits = Readonly<{ headerBytes: number; targetBytes: number }>

/**
 * Together they are the 32 KiB of a whole head. Access tokens of people in two hundred groups have 8 to 16 KiB, and
 * browsers add cookies.
 */
export const usualHeadLimits: HeadLimits = { headerBytes: 24 * 1024, targetBytes: 8 * 1024 }

/** The largest limits of any route: a head must keep them before its route is known. */
export const widenLimits = (usual: HeadLimits, rows: readonly Partial<HeadLimits>[]): HeadLimits => ({
  headerBytes: Math.max(usual.headerBytes, ...rows.map(({ headerBytes = 0 }) => headerBytes)),
  targetBytes: Math.max(usual.targetBytes, ...rows.map(({ targetBytes = 0 }) => targetBytes)),
})

export function requireHead(
  headers: Readonly<{ bytes: number }>,
  target: Readonly<{ path: string; search: string }>,
  { headerBytes, targetBytes }: Partial<HeadLimits>,
  usual: HeadLimits,
): void {
  if (headers.bytes > (headerBytes ?? usual.headerBytes)) throw new GatewayError('headers_too_large')
  if (target.path.length + target.search.length > (targetBytes ?? usual.targetBytes))
    throw new GatewayError('target_too_long')
}
