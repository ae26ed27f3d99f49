import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Owner } from '../support/owner.ts'
import type { AnswerPlan } from '../support/tagged/answer-plan.ts'
import { type Caller, type ClientOptions, openTaggedClient } from '../support/tagged/client.ts'

export const floods = ['uploads', 'downloads'] as const
export type Flood = (typeof floods)[number]

type FloodOptions = ClientOptions & Readonly<{ caller: Caller; places: readonly string[] }>

const downloadBytes = 8_000_000

/**
 * Spends the read budget of most turns: by three uploads behind a refusal, in a process of their own, or by a large download
 * from each place. Resolves when it flows, and ends with the owner.
 */
export async function startFlood(owner: Owner, flood: Flood, options: FloodOptions): Promise<void> {
  const { origin, places, caller } = options
  if (flood === 'uploads') {
    const program = fileURLToPath(new URL('flood-uploads.ts', import.meta.url))
    const child = fork(program, [new URL(origin).port, `/${places[0]}/x`, '3'])
    owner.teardown(() => child.kill('SIGKILL'))
    await once(child, 'message')
    return
  }
  let isOver = false
  owner.teardown(() => {
    isOver = true
  })
  const plan: AnswerPlan = { status: 200, framing: 'length', bytes: downloadBytes }
  const downloads = places.map((place) => {
    const send = openTaggedClient(owner, options)
    return (number: number) => send([{ caller, number, place, method: 'GET', plan }])
  })
  const goOn = async (download: (number: number) => Promise<void>): Promise<void> => {
    for (let number = 1; !isOver; number += 1) await download(number)
  }
  await Promise.all(downloads.map((download) => download(0)))
  for (const download of downloads) void goOn(download)
}
