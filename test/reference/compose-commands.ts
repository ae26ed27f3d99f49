import type { DescribedCommand } from '../../gateway/tools/cli/describe-program.ts'
import { code, composeHead, composeTable } from './markdown.ts'

const introduction = `Every command, from the program itself; \`--help\` says the same in a terminal. Exit codes of all of them:

| Code | |
|---|---|
| 0 | done, stopped as asked, or nothing was found |
| 1 | it failed while running, or found what its description names |
| 2 | bad usage or configuration; the message says what to do, with file, line and column where there is one |`

/** The page of the command line. */
export const composeCommands = (commands: readonly DescribedCommand[]): string =>
  `${composeHead('Commands', introduction)}${commands.map(composeCommand).join('')}`

function composeCommand(command: DescribedCommand): string {
  const values = [
    ...command.arguments.map(({ name, description, isRequired }) => [
      code(`<${name}>`),
      isRequired ? 'required' : '',
      description,
    ]),
    ...command.options.map(({ flags, isMandatory, defaultValue, description }) => [
      code(flags),
      isMandatory ? 'required' : defaultValue === undefined ? '' : code(defaultValue),
      description,
    ]),
  ]
  const table = values.length === 0 ? '' : `${composeTable(['Argument or option', 'Default', 'Meaning'], values)}\n`
  return `
## ${code(command.name)}

${capitalize(command.description)}.

${code(command.usage)}

${table}\`\`\`sh
${command.examples.join('\n')}
\`\`\`
`
}

const capitalize = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)
