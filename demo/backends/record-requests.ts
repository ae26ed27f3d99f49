import type { IncomingBody } from './receive-body.ts'

export type HeaderPairs = readonly (readonly [name: string, value: string])[]

export type RecordedRequest = Readonly<{
  backend: string
  requestLine: string
  headers: HeaderPairs
  bodySha256: string
  bodyBytes: number
  bodyComplete: boolean
  startedAtMs: number
  closedAtMs: number | null
  aborted: boolean
}>

/** Only the first call counts, so a drop by the backend never passes for the peer's. */
export type EndExchange = (how: Readonly<{ aborted: boolean }>) => void

export type OpenedRequest = Readonly<{
  backend: string
  requestLine: string
  headers: HeaderPairs
  body: Pick<IncomingBody, 'bytes' | 'sha256' | 'isComplete'>
}>

export type Journal = Readonly<{
  open: (request: OpenedRequest) => EndExchange
  list: () => RecordedRequest[]
  clear: () => void
}>

// A finished entry holds plain values only; an open one keeps its request and connection alive.
type Entry = { record: OpenRecord | RecordedRequest; readonly weight: number }
type OpenRecord = Readonly<{ opened: OpenedRequest; startedAtMs: number }>

const maxEntries = 50_000
const maxHeaderCharacters = 64 * 1024 * 1024

export function openJournal(now: () => number): Journal {
  const entries = new Set<Entry>()
  let weight = 0

  function forgetOldest(): void {
    for (const oldest of entries) {
      if (entries.size <= maxEntries && (weight <= maxHeaderCharacters || entries.size === 1)) return
      entries.delete(oldest)
      weight -= oldest.weight
    }
  }

  function open(opened: OpenedRequest): EndExchange {
    const startedAtMs = now()
    const entry: Entry = { record: { opened, startedAtMs }, weight: weigh(opened) }
    entries.add(entry)
    weight += entry.weight
    forgetOldest()
    return ({ aborted }) => {
      if (!('opened' in entry.record)) return
      entry.record = describe(opened, { startedAtMs, closedAtMs: now(), aborted })
    }
  }

  function clear(): void {
    entries.clear()
    weight = 0
  }

  return { open, list: () => Array.from(entries, ({ record }) => readRecord(record)), clear }
}

function weigh(request: OpenedRequest): number {
  return request.headers.reduce((sum, [name, value]) => sum + name.length + value.length, request.requestLine.length)
}

function readRecord(record: OpenRecord | RecordedRequest): RecordedRequest {
  if (!('opened' in record)) return record
  return describe(record.opened, { startedAtMs: record.startedAtMs, closedAtMs: null, aborted: false })
}

function describe(
  { backend, requestLine, headers, body }: OpenedRequest,
  fate: Pick<RecordedRequest, 'startedAtMs' | 'closedAtMs' | 'aborted'>,
): RecordedRequest {
  const bodyFacts = { bodySha256: body.sha256(), bodyBytes: body.bytes(), bodyComplete: body.isComplete() }
  return { backend, requestLine, headers, ...bodyFacts, ...fate }
}
