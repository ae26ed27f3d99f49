import { createReadStream } from 'node:fs'
import { type FoundRequest, readAuditLine } from './found-request.ts'

export type AuditSearch = Readonly<{ found: readonly FoundRequest[]; left: number }>

/** Every line of the audit is shorter (docs/reference/audit.md); longer ones are another program's. */
const lineLimitBytes = 8_192

/** A client may send one id with every request. */
const foundLimit = 10_000

const newline = 10

export async function searchAudit(file: string, requestId: string): Promise<AuditSearch> {
  const found: FoundRequest[] = []
  let left = 0
  const id = Buffer.from(requestId)
  const take = (line: Buffer, number: number): void => {
    if (!line.includes(id)) return
    const match = readAuditLine(line.toString('utf8'), requestId, `${file === '-' ? 'standard input' : file}:${number}`)
    if (!match) return
    if (found.length < foundLimit) found.push(match)
    else left += 1
  }
  const bytes: AsyncIterable<Buffer> = file === '-' ? process.stdin : createReadStream(file)
  await splitLines(bytes, take)
  return { found, left }
}

export async function splitLines(
  bytes: AsyncIterable<Buffer>,
  take: (line: Buffer, number: number) => void,
): Promise<void> {
  let rest: Buffer = Buffer.alloc(0)
  let isTooLong = false
  let number = 0
  const end = (piece: Buffer): void => {
    number += 1
    if (!isTooLong) take(rest.length > 0 ? Buffer.concat([rest, piece]) : piece, number)
    rest = Buffer.alloc(0)
    isTooLong = false
  }
  for await (const chunk of bytes) {
    let from = 0
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, from)) {
      end(chunk.subarray(from, at))
      from = at + 1
    }
    isTooLong ||= rest.length + chunk.length - from > lineLimitBytes
    rest = isTooLong ? Buffer.alloc(0) : Buffer.concat([rest, chunk.subarray(from)])
  }
  if (rest.length > 0) end(Buffer.alloc(0))
}
