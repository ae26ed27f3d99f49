import type { Command } from 'commander'
import { UsageError } from '../../configuration/failure.ts'

type Word = Readonly<{ text: string; description: string; value: 'none' | 'path' | 'other' }>

type Place = Readonly<{ path: string; takesPaths: boolean; words: readonly Word[] }>

const shells: Readonly<Record<string, (places: readonly Place[]) => string>> = {
  bash: renderBash,
  zsh: renderZsh,
  fish: renderFish,
}

/**
 * The script holds every word, so that a Tab starts no Node (0.1 s) and evaluates nothing that stands on the line.
 * Scripts that ask the program back do so by `eval`, which runs a typed `$(…)`.
 */
export function runCompletion(program: Command, shell: string): void {
  const render = Object.hasOwn(shells, shell) ? shells[shell] : undefined
  if (render === undefined)
    throw new UsageError(`the shell "${shell}" is unknown; use one of ${Object.keys(shells).join(', ')}`)
  process.stdout.write(render(readPlaces(program, program.name())))
}

function readPlaces(command: Command, path: string): readonly Place[] {
  const help = command.createHelp()
  const children = help.visibleCommands(command)
  const options = help
    .visibleOptions(command)
    .flatMap(({ short, long, flags, description }) =>
      [long, short]
        .filter((text) => text !== undefined)
        .map((text) => ({ text, description, value: readValue(flags) }) as const),
    )
  const names = children.map(
    (child) => ({ text: child.name(), description: child.description(), value: 'none' }) as const,
  )
  const takesPaths = command.registeredArguments.some((argument) => isPath(argument.name()))
  const below = children.filter((child) => child.name() !== 'help')
  return [
    { path, takesPaths, words: [...names, ...options] },
    ...below.flatMap((child) => readPlaces(child, `${path} ${child.name()}`)),
  ]
}

const isPath = (name: string): boolean => ['file', 'folder', 'old', 'new'].includes(name)

function readValue(flags: string): Word['value'] {
  const [, name] = /<([^>]+)>/.exec(flags) ?? []
  if (name === undefined) return 'none'
  return isPath(name) ? 'path' : 'other'
}

const quote = (text: string): string => `'${text.replaceAll("'", String.raw`'\''`)}'`

const pathsOf = (places: readonly Place[]): string => places.map(({ path }) => quote(path)).join(' | ')

const isOffered = ({ text }: Word): boolean => !/^-[^-]/.test(text)

const textsOf = (words: readonly Word[], isWanted: (word: Word) => boolean): readonly string[] =>
  words.filter(isWanted).map(({ text }) => text)

/** Without words of its own, a place falls back to bash's names of files. Runs on bash 3.2, which macOS has. */
function renderBash(places: readonly Place[]): string {
  const cases = places.map(({ path, words }) => {
    const valued = textsOf(words, ({ value }) => value !== 'none')
    return [
      `    ${quote(path)})`,
      ...(valued.length > 0 ? [`      case $before in ${valued.join(' | ')}) return ;; esac`] : []),
      `      words=${quote(textsOf(words, isOffered).join(' '))} ;;`,
    ].join('\n')
  })
  return `# Completion of bash for sallyport: source <(sallyport completion bash)
_sallyport() {
  local at=sallyport before=\${COMP_WORDS[COMP_CWORD - 1]} words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${pathsOf(places)}) at="$at \${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case $at in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sallyport sallyport
`
}

function renderZsh(places: readonly Place[]): string {
  const cases = places.map(({ path, takesPaths, words }) => {
    const valued = (wanted: Word['value']) => textsOf(words, ({ value }) => value === wanted).join(' | ')
    const [paths, others] = [valued('path'), valued('other')]
    return [
      `    ${quote(path)})`,
      ...(paths ? [`      case $words[CURRENT-1] in (${paths}) _files; return ;; esac`] : []),
      ...(others ? [`      case $words[CURRENT-1] in (${others}) return 1 ;; esac`] : []),
      ...(takesPaths ? [`      [[ $words[CURRENT] == -* ]] || { _files; return }`] : []),
      `      found=(${words
        .filter(isOffered)
        .map(({ text, description }) => quote(`${text}:${description}`))
        .join(' ')}) ;;`,
    ].join('\n')
  })
  return `#compdef sallyport
# Completion of zsh for sallyport: source <(sallyport completion zsh)
_sallyport() {
  local at=sallyport word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "$at $word" in
      (${pathsOf(places)}) at="$at $word" ;;
    esac
  done
  case $at in
${cases.join('\n')}
  esac
  _describe sallyport found
}
if [[ $funcstack[1] == _sallyport ]]; then _sallyport "$@"; else compdef _sallyport sallyport; fi
`
}

function renderFish(places: readonly Place[]): string {
  const quoteFish = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
  const values = { none: '', path: ' -r -F', other: ' -x' }
  const nameOf = (text: string): string => {
    if (text.startsWith('--')) return `-l ${text.slice(2)}`
    return text.startsWith('-') ? `-s ${text.slice(1)}` : `-a ${text}`
  }
  const lines = places.flatMap(({ path, takesPaths, words }) => {
    const head = `complete -c sallyport -n "__sallyport_at '${path}'"`
    const complete = ({ text, description, value }: Word): string =>
      `${head} ${nameOf(text)}${values[value]} -d ${quoteFish(description)}`
    return [...(takesPaths ? [] : [`${head} -f`]), ...words.map(complete)]
  })
  return `# Completion of fish for sallyport: sallyport completion fish | source
function __sallyport_at
  set -l at sallyport
  for word in (commandline -opc)[2..-1]
    switch "$at $word"
      case ${places.map(({ path }) => quoteFish(path)).join(' ')}
        set at "$at $word"
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`
}
