import { realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { compareRoles } from '../../analyze/diff/compare-roles.ts'
import type { PolicyHold } from '../../listeners/admin/policy-state.ts'
import type { Policy } from '../../policy/compile.ts'
import type { PolicyTexts } from '../../policy/file.ts'

export type Table = Readonly<{ policy: Policy; texts: PolicyTexts; places: ReadonlySet<string> }>

export type HoldReason = Readonly<{ reason: PolicyHold['reason']; names: readonly string[]; untilMs: number }>

/** An editor or a deployment that replaces a file has put it back within this time. */
export const missingMs = 10_000

const always = Number.POSITIVE_INFINITY

/** The real folders of the files: turning a ConfigMap's symbolic link changes them. */
export async function findPlaces(directory: string, texts: PolicyTexts): Promise<ReadonlySet<string>> {
  const places = new Set<string>()
  for (const name of texts.keys()) {
    const path = await realpath(join(directory, name)).catch(() => undefined)
    if (path !== undefined) places.add(dirname(path))
  }
  return places
}

export type MissingFiles = ReturnType<typeof createMissingFiles>

export function createMissingFiles(directory: string, monotonicMs: () => number) {
  let since: Readonly<{ names: readonly string[]; atMs: number }> | undefined
  const listMissing = (inForce: Table, texts: PolicyTexts): readonly string[] =>
    [...inForce.texts.keys()].filter((name) => !texts.has(name))
  return {
    wait: (inForce: Table, texts: PolicyTexts): HoldReason | undefined => {
      const names = listMissing(inForce, texts)
      if (names.length === 0) since = undefined
      else if (!since || !isDeepStrictEqual(since.names, names)) since = { names, atMs: monotonicMs() }
      if (!since) return undefined
      const untilMs = since.atMs + missingMs
      return monotonicMs() < untilMs ? { reason: 'file_missing', names, untilMs } : undefined
    },
    judge: (inForce: Table, fresh: Table): HoldReason | undefined => {
      const names = listMissing(inForce, fresh.texts)
      if (names.length === 0) return undefined
      // An operator may empty a file on purpose, but files that are missing with all their routes are a mistake.
      if (fresh.policy.routes.length === 0) return { reason: 'no_routes', names, untilMs: always }
      if (isTurned(inForce, fresh)) return undefined
      const lost = names.filter((name) => !isElsewhere(join(directory, name), inForce.policy, fresh.policy))
      return lost.length > 0 ? { reason: 'file_missing', names: lost, untilMs: always } : undefined
    },
    forget: (): void => {
      since = undefined
    },
  }
}

const isTurned = (inForce: Table, fresh: Table): boolean =>
  inForce.places.size > 0 && fresh.places.size > 0 && ![...fresh.places].some((place) => inForce.places.has(place))

/** Whether all routes of a file are in other files. A file that had no routes must leave the roles unchanged. */
function isElsewhere(file: string, old: Policy, fresh: Policy): boolean {
  const routes = old.routes.filter(({ source }) => source.startsWith(`${file}:`))
  if (routes.length === 0) return compareRoles(old.roles, fresh.roles).length === 0
  const ids = new Set(fresh.routes.map(({ id }) => id))
  return routes.every(({ id }) => ids.has(id))
}
