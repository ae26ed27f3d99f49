import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Owner } from '../support/owner.ts'

/** The time of day of a program, which a test may step; its monotonic clock goes on as it should. */
export type SteppedClock = Readonly<{
  environment: Readonly<Record<string, string>>
  stepBy: (seconds: number) => void
}>

/** Debian's package `faketime` puts it into the folder of the machine's architecture. */
export function findLibrary(): string | undefined {
  const roots = existsSync('/usr/lib') ? readdirSync('/usr/lib').map((name) => join('/usr/lib', name)) : []
  return roots.map((root) => join(root, 'faketime', 'libfaketimeMT.so.1')).find((file) => existsSync(file))
}

/** A test that steps a clock; without libfaketime it is skipped, visibly, and fails with `REQUIRE_ALL=1`. */
export function testSteppedClock(t: Test, name: string, run: (t: Test, clock: SteppedClock) => Promise<unknown>): void {
  const library = findLibrary()
  const lack = 'there is no libfaketime (Debian: faketime)'
  if (library !== undefined) void t.test(name, (t) => run(t, startClock(t, library)))
  else if (process.env.REQUIRE_ALL === '1') void t.test(name, async (t) => t.fail(lack))
  else void t.test(name, { skip: lack }, async () => undefined)
}

export function startClock(owner: Owner, library: string): SteppedClock {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-clock-'))
  owner.teardown(() => rmSync(directory, { recursive: true, force: true }))
  const file = join(directory, 'offset')
  const stepBy = (seconds: number): void => {
    writeFileSync(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}s\n`)
    renameSync(`${file}.new`, file)
  }
  stepBy(0)
  const environment = {
    LD_PRELOAD: library,
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  }
  return { environment, stepBy }
}
