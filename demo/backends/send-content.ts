import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { refuse } from './answer-platform.ts'
import { isZeros, type KeptFile } from './keep-files.ts'
import { sendJson } from './prepare-answer.ts'

type Range = Readonly<{ first: number; last: number }>

const zeros = Buffer.alloc(64 * 1024)

export async function sendContent(
  { file, head }: KeptFile,
  rangeHeader: string | undefined,
  response: ServerResponse,
): Promise<void> {
  const size = file.bytes
  const range = readRange(rangeHeader, size)
  if (range === 'unsatisfiable') {
    const body = refuse(416, 'The range lies outside the file.', 'range_not_satisfiable')
    return sendJson(response, 416, body, ['Content-Range', `bytes */${size}`])
  }
  const { first, last } = range ?? { first: 0, last: size - 1 }
  const headers = ['Content-Type', 'application/octet-stream', 'Accept-Ranges', 'bytes']
  headers.push('Content-Length', String(last - first + 1))
  if (range !== undefined) headers.push('Content-Range', `bytes ${first}-${last}/${size}`)
  response.writeHead(range === undefined ? 200 : 206, headers)
  if (response.req.method === 'HEAD') return void response.end()
  if (!isZeros(file.id)) return void response.end(head.subarray(first, last + 1))
  await sendZeros(last - first + 1, response)
}

async function sendZeros(count: number, response: ServerResponse): Promise<void> {
  try {
    await pipeline(Readable.from(makeZeros(count), { objectMode: false, highWaterMark: zeros.length }), response)
  } catch (error) {
    if (!response.closed) throw error
  }
}

function* makeZeros(count: number): Generator<Buffer> {
  for (let left = count; left > 0; left -= zeros.length) yield left < zeros.length ? zeros.subarray(0, left) : zeros
}

// RFC 9110 14.2: an unknown unit and a malformed or multiple range are ignored, and the whole file is sent.
function readRange(header: string | undefined, size: number): Range | 'unsatisfiable' | undefined {
  const [matched, from, to] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header ?? '') ?? []
  if (matched === undefined || (from === '' && to === '')) return undefined
  if (from === '') {
    const length = Math.min(Number(to), size)
    return length === 0 ? 'unsatisfiable' : { first: size - length, last: size - 1 }
  }
  const first = Number(from)
  const last = to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (to !== '' && Number(to) < first) return undefined
  return first >= size ? 'unsatisfiable' : { first, last }
}
