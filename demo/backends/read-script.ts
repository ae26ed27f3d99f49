import { BadInstruction, isObject, type PreparedAnswer, prepareAnswer } from './prepare-answer.ts'

export type Dialect = 'responses' | 'chat'

export type Ending = 'fin' | 'rst' | 'hang'

export type ScriptStep =
  | Readonly<{ kind: 'write'; bytes: Buffer }>
  | Readonly<{ kind: 'wait'; waitMs: number }>
  | Readonly<{ kind: 'end'; ending: Ending }>
  | Readonly<{ kind: 'answer'; answer: PreparedAnswer }>

type Fields = Readonly<Record<string, unknown>>

const readers: Readonly<Record<string, (fields: Fields, dialect: Dialect) => ScriptStep>> = {
  event: ({ event }, dialect) => writeEvent(readObject(event), dialect),
  comment: ({ comment }) => ({ kind: 'write', bytes: Buffer.from(`: ${readText(comment)}\n\n`) }),
  raw: ({ raw }) => ({ kind: 'write', bytes: Buffer.from(readText(raw)) }),
  rawBase64: ({ rawBase64 }) => ({ kind: 'write', bytes: Buffer.from(readText(rawBase64), 'base64') }),
  waitMs: ({ waitMs }) => ({ kind: 'wait', waitMs: readDuration(waitMs) }),
  end: ({ end }) => ({ kind: 'end', ending: readEnding(end) }),
  status: (fields) => ({ kind: 'answer', answer: prepareAnswer(fields) }),
}

const companions: ReadonlySet<string> = new Set(['headers', 'body'])

export function readScript(script: unknown, dialect: Dialect): ScriptStep[] {
  if (!Array.isArray(script)) throw new BadInstruction('metadata.script must be a list of steps')
  const steps = script.map((fields: unknown, index) => readStep(fields, index, dialect))
  const last = steps.findIndex(({ kind }) => kind === 'end' || kind === 'answer')
  if (last >= 0 && last < steps.length - 1) throw new BadInstruction(`step ${last} of the script must be its last`)
  if (steps[last]?.kind === 'answer' && steps.some(({ kind }) => kind === 'write')) {
    throw new BadInstruction('a status cannot follow what the stream has begun')
  }
  return steps
}

export function writeEvent(event: Fields, dialect: Dialect): ScriptStep {
  const data = `data: ${JSON.stringify(event)}\n\n`
  const isNamed = dialect === 'responses' && typeof event.type === 'string'
  return { kind: 'write', bytes: Buffer.from(isNamed ? `event: ${event.type}\n${data}` : data) }
}

function readStep(fields: unknown, index: number, dialect: Dialect): ScriptStep {
  const keys = isObject(fields) ? Object.keys(fields) : []
  const [key, ...others] = keys.filter((name) => !companions.has(name))
  const read = key !== undefined && Object.hasOwn(readers, key) ? readers[key] : undefined
  const isAlone = others.length === 0 && (key === 'status' || keys.length === 1)
  if (!isObject(fields) || read === undefined || !isAlone) {
    throw new BadInstruction(`step ${index} of the script must have one of ${Object.keys(readers).join(', ')}`)
  }
  try {
    return read(fields, dialect)
  } catch (cause) {
    if (!(cause instanceof BadInstruction)) throw cause
    throw new BadInstruction(`step ${index} of the script: ${cause.message}`, { cause })
  }
}

function readObject(value: unknown): Fields {
  if (isObject(value)) return value
  throw new BadInstruction('an event must be an object')
}

function readText(value: unknown): string {
  if (typeof value === 'string') return value
  throw new BadInstruction('must be a text')
}

function readDuration(value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value < 2 ** 31) return value
  throw new BadInstruction('waitMs must be a number of milliseconds')
}

function readEnding(value: unknown): Ending {
  if (value === 'fin' || value === 'rst' || value === 'hang') return value
  throw new BadInstruction('end must be fin, rst or hang')
}
