#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { generateKey } from './boot/command-keys.ts'
import { runMigrate } from './boot/command-migrate.ts'
import { runServe } from './boot/command-serve.ts'
import { reportFailure } from './boot/failure.ts'

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

const defaultConfig = 'config/gateway.yaml'

const program = new Command('sallyport')
  .description('Authorization gateway: who you are, for which organization, what you may do; and only then forward.')
  .version(version)
  .showHelpAfterError('(add --help for usage and an example)')
  .addHelpText('after', example('npx sallyport demo', 'npx sallyport serve --config config/gateway.yaml'))

program
  .command('serve')
  .description('run the gateway; SIGTERM drains it, Ctrl-C stops it without delay')
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport serve --config config/gateway.yaml'))
  .action(({ config }: { config: string }) => runServe(config))

program
  .command('demo')
  .description('run a whole world on this machine: PostgreSQL, an OIDC issuer, backends, and the gateway before them')
  .addHelpText('after', example('npx sallyport demo', 'cat .sallyport/demo.json'))
  .action(async () => {
    // The demo's parts are development dependencies: loaded only here, since a production install has none of them.
    const { runDemo } = await import('./demo/demo.ts')
    await runDemo()
  })

program
  .command('migrate')
  .description("bring the directory's schema up to date")
  .option('-c, --config <file>', 'configuration file', defaultConfig)
  .option('--json', 'print the applied migrations as JSON')
  .addHelpText('after', example('DATABASE_URL=postgres://… npx sallyport migrate'))
  .action((options: { config: string; json?: boolean }) => runMigrate(options.config, options.json === true))

program
  .command('keys')
  .description('keys that sign the identity header')
  .addHelpText('after', example('npx sallyport keys generate'))
  .command('generate')
  .description('make a private key in a new file (mode 0600)')
  .option('-o, --out <file>', 'where to write it', '.sallyport/identity.pem')
  .option('-a, --algorithm <name>', 'EdDSA or ES256', 'EdDSA')
  .option('--json', 'print the file and key id as JSON')
  .addHelpText('after', example('npx sallyport keys generate --out /etc/sallyport/identity.pem'))
  .action((options: { out: string; algorithm: string; json?: boolean }) => generateKey(options))

function example(...lines: string[]): string {
  return `\nExample:\n${lines.map((line) => `  $ ${line}\n`).join('')}`
}

// Commander exits 1 on bad usage by itself; the contract says 2.
for (const command of [program, ...program.commands, ...program.commands.flatMap(({ commands }) => commands)])
  command.exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))

await program.parseAsync().catch(reportFailure)
