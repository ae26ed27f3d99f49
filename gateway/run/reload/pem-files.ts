import type { Pem } from '../../configuration/pem.ts'
import type { Log } from '../../observe/log/log.ts'
import { createFilesWatch, type Poll, repeat } from './watch-files.ts'
import { readTexts, trim } from './watch-keys.ts'

export type Pems<Name extends string> = Readonly<Partial<Record<Name, Pem>>>

export type Texts<Name extends string> = Readonly<Partial<Record<Name, string>>>

export type PemsWatch<Name extends string> = Readonly<{
  owner: Readonly<Record<string, string>>
  pems: Pems<Name>
  apply: (texts: Texts<Name>) => void
  noteOutcome: (isGood: boolean) => void
  log: Log
}>

/** A change is taken once two looks in a row have found it: after a second or so. */
const pollIntervalMs = 500

export function createPemsWatch<Name extends string>({ owner, pems, apply, ...watch }: PemsWatch<Name>): Poll {
  const entries = Object.entries(pems) as [Name, Pem][]
  const name = (texts: readonly string[]) =>
    Object.fromEntries(entries.map(([name], index) => [name, texts[index]])) as Texts<Name>
  const { log } = watch
  return createFilesWatch<readonly string[]>({
    inUse: entries.map(([, { text }]) => trim(text)),
    read: readTexts(entries.map(([, { file }]) => file)),
    apply: (texts) => apply(name(texts)),
    noteOutcome: watch.noteOutcome,
    log: {
      ...log,
      info: (fields, message) => log.info({ ...owner, ...fields }, message),
      error: (fields, message) => log.error({ ...owner, ...fields }, message),
    },
    messages: {
      failed: 'certificate reload failed; the last good ones stay in use',
      reloaded: 'certificates reloaded',
      restored: 'certificate files match the ones in use again',
    },
  })
}

export type FilesWatcher = Readonly<{ reload: () => Promise<void>; stop: () => void }>

export function follow(looks: readonly Poll[], onBug: (error: unknown) => void): FilesWatcher {
  const stops = looks.map((look) => repeat(look, pollIntervalMs, onBug))
  return {
    reload: async () => {
      await Promise.all(looks.map((look) => look(true).catch(onBug)))
    },
    stop: () => {
      for (const stop of stops) stop()
    },
  }
}

export const textsOf = <Name extends string>(pems: Pems<Name>): Texts<Name> =>
  Object.fromEntries(Object.entries<Pem | undefined>(pems).map(([name, pem]) => [name, pem?.text])) as Texts<Name>
