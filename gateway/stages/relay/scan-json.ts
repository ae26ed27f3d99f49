const quote = 0x22
const backslash = 0x5c
const zero = 0x30
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const closeBracket = 0x5d

export type TakeMember = (key: string, start: number, end: number) => boolean

/**
 * Visits the members of the JSON object at `from` without parsing their values. An event may have many megabytes, but
 * only a few short members near its start are read. Malformed JSON ends the scan; the client will report it.
 */
export function scanMembers(json: Buffer, from: number, take: TakeMember): void {
  let position = skipSpace(json, from)
  if (json[position] !== openBrace) return
  position = skipSpace(json, position + 1)
  while (json[position] === quote) {
    const keyEnd = endOfString(json, position)
    if (keyEnd < 0) return
    const key = readKey(json, position + 1, keyEnd - 1)
    position = skipSpace(json, keyEnd)
    if (json[position] !== colon) return
    const start = skipSpace(json, position + 1)
    const end = endOfValue(json, start)
    if (end < 0 || !take(key, start, end)) return
    position = skipSpace(json, end)
    if (json[position] !== comma) return
    position = skipSpace(json, position + 1)
  }
}

/** Visits the elements of the JSON array at `from`, by their places. */
export function scanElements(json: Buffer, from: number, take: (start: number) => void): void {
  if (json[from] !== openBracket) return
  let position = skipSpace(json, from + 1)
  while (position < json.length && json[position] !== closeBracket) {
    const end = endOfValue(json, position)
    if (end < 0) return
    take(position)
    position = skipSpace(json, end)
    if (json[position] !== comma) return
    position = skipSpace(json, position + 1)
  }
}

const usualKeys = ['type', 'sequence_number', 'delta', 'item_id', 'output_index', 'content_index', 'id', 'choices']

function readKey(json: Buffer, start: number, end: number): string {
  for (const key of usualKeys) if (key.length === end - start && standsAt(json, start, key)) return key
  return json.toString('latin1', start, end)
}

function standsAt(json: Buffer, start: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) if (json[start + index] !== word.charCodeAt(index)) return false
  return true
}

/** Only ids, types, indexes and reasons are read, of under 100 characters. */
const scalarLimitBytes = 512

/** 2^53 - 1 has 16 digits: any number of 15 is exact. */
const safeDigits = 15

export function readScalar(json: Buffer, start: number, end: number): unknown {
  const first = json[start]
  if (end - start > scalarLimitBytes || first === openBrace || first === openBracket) return undefined
  return readDigits(json, start, end) ?? parse(json, start, end)
}

/**
 * Reads a plain integer by its digits, undefined for anything else. Each event has one, and `JSON.parse` costs more.
 */
function readDigits(json: Buffer, start: number, end: number): number | undefined {
  const count = end - start
  if (count === 0 || count > safeDigits || (json[start] === zero && count > 1)) return undefined
  let number = 0
  for (let index = start; index < end; index++) {
    const digit = (json[index] ?? 0) - zero
    if (digit < 0 || digit > 9) return undefined
    number = number * 10 + digit
  }
  return number
}

/**
 * Whether the value is one of these ASCII words; undefined for null and for malformed values. Text is compared in place
 * and parsed only if it has escapes.
 */
export function isOneOf(words: readonly string[], json: Buffer, start: number, end: number): boolean | undefined {
  if (isPlainText(json, start, end)) {
    for (const word of words) if (word.length === end - start - 2 && standsAt(json, start + 1, word)) return true
    return false
  }
  const value = readScalar(json, start, end) ?? undefined
  return value === undefined ? undefined : words.some((word) => word === value)
}

function isPlainText(json: Buffer, start: number, end: number): boolean {
  if (json[start] !== quote || end - start > scalarLimitBytes) return false
  for (let index = start; index < end; index++) if (json[index] === backslash) return false
  return true
}

function parse(json: Buffer, start: number, end: number): unknown {
  try {
    return JSON.parse(json.toString('utf8', start, end))
  } catch {
    // Malformed JSON passes unchanged: the upstream answers for it.
    return undefined
  }
}

export function skipSpace(json: Buffer, from: number): number {
  let position = from
  while (isSpace(json[position])) position++
  return position
}

const isSpace = (byte: number | undefined): boolean => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

function endOfString(json: Buffer, start: number): number {
  for (let end = json.indexOf(quote, start + 1); end >= 0; end = json.indexOf(quote, end + 1)) {
    let escapes = 0
    while (json[end - 1 - escapes] === backslash) escapes++
    if (escapes % 2 === 0) return end + 1
  }
  return -1
}

function endOfValue(json: Buffer, start: number): number {
  const first = json[start]
  if (first === quote) return endOfString(json, start)
  if (first === openBrace || first === openBracket) return endOfNested(json, start)
  let end = start
  while (end < json.length && !isSpace(json[end]) && !isClosing(json[end])) end++
  return end === start ? -1 : end
}

const isClosing = (byte: number | undefined): boolean => byte === comma || byte === closeBrace || byte === closeBracket

/**
 * Finds the position after the bracket that closes the one at `start`. It counts instead of recursing, so depth costs
 * no stack.
 */
function endOfNested(json: Buffer, start: number): number {
  let depth = 0
  let position = start
  while (position < json.length) {
    const byte = json[position]
    if (byte === quote) {
      position = endOfString(json, position)
      if (position < 0) return -1
      continue
    }
    if (byte === openBrace || byte === openBracket) depth++
    position++
    if ((byte === closeBrace || byte === closeBracket) && --depth === 0) return position
  }
  return -1
}
