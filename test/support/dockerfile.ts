import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { repository } from './deploy.ts'

export type Instruction = Readonly<{ name: string; value: string }>

/** Instructions from one FROM to the next, and before the first. */
export type Stage = Readonly<{ from: string; as: string; instructions: readonly Instruction[] }>

/** Reads a repository's Dockerfile: its global arguments are put into FROM, every other variable stays. */
export function readDockerfile(folder = repository): readonly Stage[] {
  const text = readFileSync(join(folder, 'Dockerfile'), 'utf8')
  const lines = text
    .replace(/^\s*#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line.trim() !== '')
  const instructions = lines.map((line): Instruction => {
    const [, name = '', value = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? []
    return { name, value: value.replace(/\s+/g, ' ') }
  })
  const starts = instructions.flatMap(({ name }, index) => (name === 'FROM' ? [index] : []))
  const globals = instructions.slice(0, starts[0])
  return starts.map((start, index) => {
    const [from = '', as = ''] = (instructions[start]?.value ?? '').split(/ as /i)
    return { from: replaceArguments(from, globals), as, instructions: instructions.slice(start + 1, starts[index + 1]) }
  })
}

function replaceArguments(text: string, globals: readonly Instruction[]): string {
  const values = new Map(globals.map(({ value }) => value.split(/=(.*)/) as [string, string]))
  return text.replace(/\$\{(\w+)\}/g, (_, name) => values.get(name) ?? '')
}

/** The last value of an instruction that is there at most once in force, such as USER. */
export const lastOf = ({ instructions }: Stage, name: string): string =>
  instructions.filter((instruction) => instruction.name === name).at(-1)?.value ?? ''

/** A command in its exec form. */
export const readCommand = (value: string): readonly string[] => JSON.parse(value)

/** The arguments of Node in the image, before the name of the program. */
export function readNodeOptions(folder = repository): readonly string[] {
  const final = readDockerfile(folder).at(-1)
  return final ? readCommand(lastOf(final, 'ENTRYPOINT')).filter((word) => word.startsWith('--')) : []
}
