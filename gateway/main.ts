#!/usr/bin/env node
import { Command } from 'commander'
import { takeEarlySignals } from './base/fault/early-signals.ts'
import { paintError } from './base/lib/paint.ts'
import { reportFailure } from './configuration/failure.ts'
import { readVersion } from './configuration/version.ts'
import { addCommands, example } from './tools/cli/command.ts'
import { createCommands } from './tools/cli/commands.ts'

// Commands inherit how the program prints and exits, so they are added after it.
const program = new Command('sallyport')
  .description('Authorization gateway: check the caller, the organization and the permission, and only then forward')
  .version(readVersion())
  .configureOutput({ outputError: (text, write) => write(paintError(text)) })
  .showHelpAfterError('(add --help for usage and an example)')
  // Commander exits with 1 on bad usage; every command of the gateway exits with 2.
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .addHelpText('after', example('npx sallyport demo', 'npx sallyport serve --config config/gateway.yaml'))
  .hook('preAction', (_program, command) => {
    if (command.name() === 'serve') takeEarlySignals()
    else if (command.name() !== 'demo') endWithReader()
  })

addCommands(program, createCommands(runDemo))

await program.parseAsync().catch(reportFailure)

async function runDemo(): Promise<void> {
  // Loaded only here: the demo needs development dependencies, which a production install lacks.
  const demo = await import('../demo/demo.ts')
  await demo.runDemo()
}

/** A reader such as `head` may close the pipe before the command has printed everything. */
function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
    process.exit()
  })
}
