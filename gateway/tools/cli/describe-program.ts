import type { Command } from 'commander'

export type DescribedCommand = Readonly<{
  name: string
  description: string
  usage: string
  arguments: readonly Readonly<{ name: string; description: string; isRequired: boolean }>[]
  options: readonly DescribedOption[]
  examples: readonly string[]
}>

export type DescribedOption = Readonly<{
  flags: string
  description: string
  defaultValue: string | undefined
  isMandatory: boolean
  takesValue: boolean
}>

export const describeProgram = (program: Command): readonly DescribedCommand[] => describeBelow(program, '')

function describeBelow(command: Command, above: string): readonly DescribedCommand[] {
  const name = `${above}${command.name()}`
  const children = command.createHelp().visibleCommands(command)
  const below = children.filter((child) => child.name() !== 'help').flatMap((child) => describeBelow(child, `${name} `))
  return below.length > 0 ? below : [describeCommand(command, name)]
}

function describeCommand(command: Command, name: string): DescribedCommand {
  return {
    name,
    description: command.description(),
    usage: `${name} ${command.usage()}`,
    arguments: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      description: argument.description,
      isRequired: argument.required,
    })),
    options: command.options
      .filter(({ hidden }) => !hidden)
      .map(({ flags, description, defaultValue, mandatory, required }) => ({
        flags,
        description,
        defaultValue: typeof defaultValue === 'string' ? defaultValue : undefined,
        isMandatory: mandatory,
        takesValue: required,
      })),
    examples: readExamples(command),
  }
}

function readExamples(command: Command): readonly string[] {
  const help: string[] = []
  command.configureOutput({ writeOut: (text) => void help.push(text) })
  command.outputHelp()
  return [...help.join('').matchAll(/^ {2}\$ (.*)$/gm)].map(([, line = '']) => line)
}
