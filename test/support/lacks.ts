import type { Test } from 'tap'

type Run = (t: Test) => Promise<unknown>

const isRequired = (variable: string): boolean => process.env[variable] === '1'

/**
 * A test, or a block of tests, that needs a program which this machine may lack. `lack` says which one is missing. The
 * test is then skipped with that reason, and fails with `REQUIRE_ALL=1` or with a variable of its own.
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
