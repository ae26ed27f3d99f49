import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { RecordedRequest } from '../../gateway/demo/backends/record-requests.ts'
import { startWorld, type World } from '../../gateway/demo/world.ts'
import { type Answer, type Call, call, callRaw } from './client.ts'

export type { RecordedRequest }

/** A demo world of a test file's own, and the ways to speak to it. */
export type TestWorld = World['description'] &
  Readonly<{
    world: World
    directory: string
    /** One request to the public listener. */
    call: (call: Call) => Promise<Answer>
    /** Bytes on a socket of their own, and everything that came back until the other side closed or fell silent. */
    raw: (bytes: string | Buffer, silenceMs?: number) => Promise<string>
    recorded: () => Promise<readonly RecordedRequest[]>
    clearRecorder: () => Promise<void>
    mint: (request: Readonly<Record<string, unknown>>) => Promise<string>
  }>

/** Starts a world on free ports and stops it with the test. */
export async function startTestWorld(t: Test): Promise<TestWorld> {
  const directory = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  const world = await startWorld({
    directory,
    ports: { public: 0, decision: 0, admin: 0 },
    notify: (text) => t.comment(text),
  })
  t.teardown(async () => {
    await world.stop()
    rmSync(directory, { recursive: true, force: true })
  })
  const { description } = world
  const { recorder } = description.backends
  return {
    ...description,
    world,
    directory,
    call: (request) => call(description.public, request),
    raw: (bytes, silenceMs) => callRaw(description.public, bytes, silenceMs),
    recorded: async () => (await fetch(`${recorder}/requests`)).json() as Promise<readonly RecordedRequest[]>,
    clearRecorder: async () => {
      await fetch(`${recorder}/requests`, { method: 'DELETE' })
    },
    mint: async (request) => {
      const answer = await fetch(description.oidc.mintUrl, { method: 'POST', body: JSON.stringify(request) })
      const { jwt } = (await answer.json()) as { jwt: string }
      return jwt
    },
  }
}

/** The header of a user's OAuth token. */
export const oauth = ({ jwt }: { jwt: string }): Record<string, string> => ({ 'x-oauth-access-token': jwt })

/** The header of an API token. */
export const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` })
