import type { DescribedCommand } from '../../gateway/tools/cli/describe-program.ts'
import { runCommand } from '../support/command-line.ts'
import { composeArchitecture } from './compose-architecture.ts'
import { composeCommands } from './compose-commands.ts'
import { composeConfiguration } from './compose-configuration.ts'
import { composeErrors } from './compose-errors.ts'
import { composePolicies } from './compose-policies.ts'

/** The folder from which the names of the pages count. */
export const documentsFolder = new URL('../../docs/', import.meta.url)

/** Every command of the program that was built last. */
export async function readCommands(): Promise<readonly DescribedCommand[]> {
  const { code, stdout, stderr } = await runCommand(['reference'])
  if (code !== 0) throw new Error(`sallyport reference ended with ${code}: ${stderr}`)
  return JSON.parse(stdout) as readonly DescribedCommand[]
}

/** Every page by its file's name, as it should be now. */
export const composeReference = async (): Promise<Readonly<Record<string, string>>> => ({
  'explanation/architecture.md': composeArchitecture(),
  'reference/configuration.md': composeConfiguration(),
  'reference/policies.md': composePolicies(),
  'reference/commands.md': composeCommands(await readCommands()),
  'reference/errors.md': composeErrors(),
})
