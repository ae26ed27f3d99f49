import type { DescribedCommand, DescribedOption } from '../../gateway/tools/cli/describe-program.ts'

/** At the beginning of a command, behind its variables. */
const begin = /(?:^|\$\(|[|&;])\s*(?:\$ )?(?:[A-Z_]+=\S+ )*(?:npx )?sallyport ([^|<>;)&]+)/g

/** The calls of `sallyport` in lines of a shell, without what the shell does with them. */
export function findCalls(shell: string): readonly string[] {
  const lines = shell.replaceAll(/\\\n\s*/g, ' ').split('\n')
  return lines
    .map((line) => line.replace(/(^|\s)#.*$/, ''))
    .flatMap((line) => [...line.matchAll(begin)].map(([, call = '']) => call.trim()))
}

/** The mistake of a call, as a sentence; undefined for a good one. */
export function findMistake(call: string, commands: readonly DescribedCommand[]): string | undefined {
  const words = [...call.matchAll(/"[^"]*"|'[^']*'|\S+/g)].map(([word]) => word)
  const command = commands
    .filter(({ name }) => `sallyport ${call} `.startsWith(`${name} `))
    .sort((left, right) => right.name.length - left.name.length)[0]
  if (!command) return /^--(?:help|version)$/.test(call) ? undefined : 'there is no such command'
  const rest = words.slice(command.name.split(' ').length - 1)
  return checkWords(rest, command)
}

function checkWords(words: readonly string[], command: DescribedCommand): string | undefined {
  const given = new Set<DescribedOption>()
  let values = 0
  for (let index = 0; index < words.length; index += 1) {
    const [word = '', attached] = (words[index] ?? '').split('=')
    if (word === '--help') return undefined
    // The shell may put in anything.
    if (word.startsWith('$')) continue
    if (!word.startsWith('-')) {
      values += 1
      continue
    }
    const option = command.options.find(({ flags }) => flags.split(/[ ,]+/).includes(word))
    if (!option) return `${command.name} has no option ${word}`
    given.add(option)
    if (option.takesValue && attached === undefined) {
      index += 1
      if (words[index] === undefined) return `${word} wants a value`
    }
  }
  const wanted = command.arguments.length
  if (values !== wanted) return `${command.name} takes ${wanted} arguments, not ${values}`
  const missing = command.options.find((option) => option.isMandatory && !given.has(option))
  return missing && `${command.name} wants ${missing.flags}`
}
