import { skipSpace } from './scan-json.ts'

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBrace = 0x7b
const closeBrace = 0x7d
const openBracket = 0x5b
const firstPrintable = 0x20

/** In ASCII each closing bracket stands two behind its opening one. */
const toClosing = 2

/** Deeper than SDKs read: Python's parser gives up at about a thousand levels. */
const mostDepth = 512

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Doubles have at most 24 characters. A longer word is not copied to be tested. */
const longestNumber = 512

/**
 * Whether the bytes are one JSON object (RFC 8259) and nothing else. Unlike `JSON.parse` it builds nothing, since an event
 * of 16 MiB can make objects of many times its size.
 */
export function isWholeObject(json: Buffer): boolean {
  const start = skipSpace(json, 0)
  if (json[start] !== openBrace) return false
  const end = endOfWhole(json, start)
  return end >= 0 && skipSpace(json, end) === json.length
}

/** Keeps its open brackets in a list instead of recursing, so that depth costs no stack. */
function endOfWhole(json: Buffer, start: number): number {
  const open: number[] = []
  let at = start
  while (at >= 0) {
    const byte = json[at] ?? 0
    const isNested = byte === openBrace || byte === openBracket
    const inner = isNested ? skipSpace(json, at + 1) : at
    if (isNested && json[inner] !== byte + toClosing) {
      if (open.length === mostDepth) return -1
      open.push(byte + toClosing)
      at = byte === openBrace ? afterKey(json, inner) : inner
      continue
    }
    at = isNested ? inner + 1 : endOfScalar(json, at)
    at = at < 0 ? at : closeBrackets(json, at, open)
    if (open.length === 0) return at
    if (at >= 0) at = open.at(-1) === closeBrace ? afterKey(json, skipSpace(json, at)) : skipSpace(json, at)
  }
  return -1
}

/** Closes what ends behind a value, and returns the place after the comma, or after the last bracket of all. */
function closeBrackets(json: Buffer, from: number, open: number[]): number {
  let at = from
  while (open.length > 0) {
    at = skipSpace(json, at)
    if (json[at] === comma) return at + 1
    if (json[at] !== open.at(-1)) return -1
    open.pop()
    at += 1
  }
  return at
}

function afterKey(json: Buffer, start: number): number {
  if (json[start] !== quote) return -1
  const end = endOfText(json, start)
  const at = end < 0 ? -1 : skipSpace(json, end)
  return at >= 0 && json[at] === colon ? skipSpace(json, at + 1) : -1
}

function endOfScalar(json: Buffer, start: number): number {
  if (json[start] === quote) return endOfText(json, start)
  let end = start
  while (end < json.length && end - start <= longestNumber && isOfWord(json[end] ?? 0)) end += 1
  const word = json.toString('latin1', start, end)
  return word === 'true' || word === 'false' || word === 'null' || number.test(word) ? end : -1
}

/** A letter, a digit, or one of `+`, `-` and `.`. */
const isOfWord = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) ||
  (byte >= 0x61 && byte <= 0x7a) ||
  byte === 0x45 ||
  byte === 0x2b ||
  byte === 0x2d ||
  byte === 0x2e

function endOfText(json: Buffer, start: number): number {
  for (let at = start + 1; at < json.length; at += 1) {
    const byte = json[at] ?? 0
    if (byte === quote) return at + 1
    if (byte < firstPrintable) return -1
    if (byte !== backslash) continue
    at += 1
    if (!escapable.has(json[at] ?? 0)) return -1
    if (json[at] !== unicode) continue
    for (const end = at + hexDigits; at < end; at += 1) if (!isHexDigit(json[at + 1] ?? 0)) return -1
  }
  return -1
}

const escapable: ReadonlySet<number> = new Set(Buffer.from('"\\/bfnrtu'))
const unicode = 0x75

// RFC 8259 7: `\u` and four digits.
const hexDigits = 4

const isHexDigit = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66)
