// The commands of the program. Each is declared once: help, completion, reference and parser read its declaration.
import { type Command, Option } from 'commander'

export type DeclaredCommand = Readonly<{ description: string; examples: readonly string[] }> & (Family | Runnable)

/** By name, in the order of help. */
export type DeclaredCommands = Readonly<{ [name: string]: DeclaredCommand }>

type Family = Readonly<{ commands: DeclaredCommands }>

type Runnable = Readonly<{
  /** From the argument, such as `<id>`, to its meaning. */
  arguments?: Readonly<Record<string, string>>
  options?: readonly Option[]
  run: Parameters<Command['action']>[0]
  isHidden?: true
}>

export function addCommands(parent: Command, declared: DeclaredCommands): void {
  for (const [name, one] of Object.entries(declared)) {
    const isHidden = 'run' in one && one.isHidden === true
    const command = parent.command(name, { hidden: isHidden }).description(one.description)
    if (one.examples.length > 0) command.addHelpText('after', example(...one.examples))
    if ('commands' in one) addCommands(command, one.commands)
    else addRun(command, one)
  }
}

function addRun(command: Command, { arguments: taken = {}, options = [], run }: Runnable): void {
  for (const [argument, meaning] of Object.entries(taken)) command.argument(argument, meaning)
  for (const option of options) command.addOption(option)
  command.action(run)
}

export const example = (...lines: readonly string[]): string =>
  `\nExample:\n${lines.map((line) => `  $ ${line}\n`).join('')}`

export const option = (flags: string, description: string, byDefault?: string): Option =>
  new Option(flags, description).default(byDefault)

export const mandatory = (flags: string, description: string): Option =>
  new Option(flags, description).makeOptionMandatory()

export const repeated = (flags: string, description: string): Option =>
  new Option(flags, description)
    .default([])
    .argParser((value: string, earlier: readonly string[]): readonly string[] => [...earlier, value])

export const config = (description = 'configuration file'): Option =>
  option('-c, --config <file>', description, 'config/gateway.yaml')

export const json = (description = 'print the result as JSON'): Option => option('--json', description)

type RunnableName<Module> = {
  [Name in keyof Module]: Module[Name] extends (...given: never[]) => unknown ? Name : never
}[keyof Module]

type Given<Run> = Run extends (...given: infer All) => unknown ? All : never

/** Imports the action's module when it runs, so that help and health checks do not load the database driver. */
export const lazy =
  <Module, Name extends RunnableName<Module>>(load: () => Promise<Module>, name: Name) =>
  async (...given: Given<Module[Name]>): Promise<void> => {
    const run = (await load())[name] as (...all: typeof given) => unknown
    await run(...given)
  }
