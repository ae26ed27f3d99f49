import type { RawHeaders } from '../../http/exchange.ts'

export type TraceContext = Readonly<{ traceparent: string; tracestate: readonly string[] }>

// Version 00 and its forward-compatible successors. Version ff and ids of zeros alone are invalid.
const pattern = /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/

/** Takes one well-formed `traceparent`; `tracestate` means nothing without it (3.3.1.5). */
export function parseTraceContext(parents: readonly string[], tracestate: readonly string[]): TraceContext | undefined {
  const [traceparent] = parents
  if (traceparent === undefined || parents.length > 1 || !pattern.test(traceparent)) return undefined
  return { traceparent, tracestate }
}

export function findTraceContext(headers: RawHeaders): TraceContext | undefined {
  const parents: string[] = []
  const states: string[] = []
  for (let index = 0; index < headers.length; index += 2) {
    const name = headers[index]?.toLowerCase()
    if (name === 'traceparent') parents.push(headers[index + 1] ?? '')
    else if (name === 'tracestate') states.push(headers[index + 1] ?? '')
  }
  return parseTraceContext(parents, states)
}
