import type { Test } from 'tap'

type Run = (t: Test) => Promise<unknown>

const isRequired = (variable: string): boolean => process.env[variable] === '1'

/**
 * A test, or a block of them, that this machine may not be able to run. Then it is skipped, visibly and with the
 * lack; `REQUIRE_ALL=1`, or a variable of its own, turns the skip into a failure.
 */
export function testUnlessLacking(
  t: Test,
  name: string,
  run: Run,
  lack: string | undefined,
  variable = 'REQUIRE_ALL',
): void {
  if (lack === undefined) void t.test(name, run)
  else if (isRequired(variable) || isRequired('REQUIRE_ALL')) void t.test(name, async (t) => t.fail(lack))
  else void t.test(name, { skip: lack }, async () => undefined)
}
