import { readFileSync } from 'node:fs'

const repository = new URL('../../', import.meta.url)

type House = Readonly<{
  listSources: () => readonly string[]
  roomOf: (file: string) => string
  pathOf: (room: string) => string
}>

const house: House = await import(new URL('scripts/measure-house.js', repository).href)

/** The folder of a source by its own name, and the path of that folder, below gateway/ where it lies there. */
export const { roomOf, pathOf } = house

/** Sources of the program, as paths below gateway/; those of console/ and demo/ keep their first folder. */
export const listSources = (): readonly string[] => house.listSources().map((file) => file.replace(/^gateway\//, ''))

/** The path from the repository. */
export const placeSource = (file: string): string => (/^(?:console|demo)\//.test(file) ? file : `gateway/${file}`)

export const readSource = (file: string): string => readFileSync(new URL(placeSource(file), repository), 'utf8')
