import { readdirSync } from 'node:fs'
import type { Column } from '../../test/support/press/column.ts'
import { type NamedRow, namedRows } from './named-rows.ts'
import { playRow, type Row, type RowPlace } from './play-row.ts'

const folder = new URL('../../test/advisories/', import.meta.url)

/** The advisory tests, by the names of their files. */
export const listAdvisories = (): readonly string[] =>
  readdirSync(folder)
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => file.slice(0, -'.test.ts'.length))
    .sort()

const isOf = (named: NamedRow, column: Column): boolean => named.columns === 'all' || named.columns.includes(column)

/** Why a file does not run under a column, or undefined. */
export const findReason = (file: string, column: Column): string | undefined =>
  namedRows.find((named) => named.file === file && named.test === undefined && isOf(named, column))?.reason

/** Entries of `namedRows` that name nothing. */
export const findStrangers = (files: readonly string[]): readonly string[] =>
  namedRows.filter(({ file }) => !files.includes(file)).map(({ file }) => `there is no ${file}.test.ts to name`)

/** The faults of a test file in sentences; empty for a green one. */
export function judgeRow({ column, file, failed, ran, fault, pressed }: Row): readonly string[] {
  const named = namedRows.filter((row) => row.file === file && row.test !== undefined && isOf(row, column))
  const names = named.map(({ test }) => test)
  const red = failed.filter((name) => !names.some((test) => name === test || name.startsWith(`${test} > `)))
  return [
    ...red.map((name) => `failed: ${name === '' ? 'the file' : name}`),
    ...names.filter((name) => name !== undefined && !ran.includes(name)).map((name) => `named, but not there: ${name}`),
    ...(fault === undefined ? [] : [fault]),
    ...(ran.length === 0 ? ['no test ran'] : []),
    ...(pressed === 0 ? ['the pressure was not at work'] : []),
  ]
}

export type Cell = readonly [column: Column, file: string]

export type Played = Readonly<{ row: Row; faults: readonly string[] }>

/** Plays test files, so many at a time, and tells each as it ends. */
export async function playCells(
  cells: readonly Cell[],
  place: RowPlace & Readonly<{ jobs: number }>,
  onPlayed: (played: Played) => void,
): Promise<readonly Played[]> {
  const waiting = [...cells]
  const all: Played[] = []
  const work = async (): Promise<void> => {
    for (let cell = waiting.shift(); cell; cell = waiting.shift()) {
      const row = await playRow(...cell, place)
      const played = { row, faults: judgeRow(row) }
      all.push(played)
      onPlayed(played)
    }
  }
  await Promise.all(Array.from({ length: place.jobs }, work))
  return all
}
