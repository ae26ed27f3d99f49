import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { DrillFixture } from './fixture.ts'

/** A folder with the shipped policies, for a drill to damage; it goes with the fixture. */
export function copyPolicies({ owner, notes }: DrillFixture): string {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-drill-policies-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  cpSync(fileURLToPath(new URL('../policies', import.meta.url)), directory, { recursive: true })
  notes.set('policies', directory)
  return directory
}

/** A file of the folder that was copied. */
export const policyFile = ({ notes }: DrillFixture, name: string): string => join(String(notes.get('policies')), name)
