import { isUtf8 } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { BadInstruction, type PreparedAnswer, prepareAnswer, sendAnswer } from './prepare-answer.ts'
import type { IncomingBody } from './receive-body.ts'

const stalledBodyMs = 250

/** Answers as the header `x-demo-answer` says, once the body has arrived or stalled: a 413 may come early. */
export async function obeyDemoAnswer(header: string, body: IncomingBody, response: ServerResponse): Promise<void> {
  const answer = readDemoAnswer(header)
  await waitForBody(body)
  sendAnswer(response, answer)
}

function readDemoAnswer(header: string): PreparedAnswer {
  const bytes = Buffer.from(header, 'latin1')
  try {
    return prepareAnswer(JSON.parse(isUtf8(bytes) ? bytes.toString('utf8') : header))
  } catch (cause) {
    if (cause instanceof BadInstruction) throw cause
    throw new BadInstruction('x-demo-answer is not JSON', { cause })
  }
}

async function waitForBody(body: IncomingBody): Promise<void> {
  let seen = -1
  while (seen !== body.bytes()) {
    seen = body.bytes()
    const over = await Promise.race([body.arrived.then(() => true), delay(stalledBodyMs, false, { ref: false })])
    if (over) return
  }
}
