import { createRequire } from 'node:module'
import { ERROR, FLAGS, METHODS, TYPE } from 'undici/lib/llhttp/constants.js'

/** Callbacks of a parser. Positions are offsets into the current read, and any return value but 0 stops it. */
export interface Reader {
  onBegin(): number
  onFirstLine(start: number, end: number): number
  onName(start: number, end: number): number
  onValue(start: number, end: number): number
  onHead(status: number, isUpgrade: boolean, isKeptAlive: boolean): number
  onBody(start: number, end: number): number
  onComplete(): number
}

type Exports = Readonly<{
  memory: Readonly<{ buffer: ArrayBuffer }>
  malloc: (size: number) => number
  llhttp_alloc: (type: number) => number
  llhttp_free: (parser: number) => void
  llhttp_reset: (parser: number) => void
  llhttp_execute: (parser: number, at: number, length: number) => number
  llhttp_finish: (parser: number) => number
  llhttp_get_error_pos: (parser: number) => number
  llhttp_get_method: (parser: number) => number
  llhttp_get_http_major: (parser: number) => number
  llhttp_get_http_minor: (parser: number) => number
}>

type Imports = Readonly<Record<string, (parser: number, ...rest: number[]) => number>>

declare const WebAssembly: Readonly<{
  Module: new (bytes: Uint8Array) => object
  Instance: new (module: object, imports: Readonly<{ env: Imports }>) => Readonly<{ exports: unknown }>
}>

/** The build that undici ships and uses, pinned with it. It is strict: no leniency flag is set. */
const require = createRequire(import.meta.url)
const compile = (build: string): object => new WebAssembly.Module(require(`undici/lib/llhttp/${build}.js`))

function compileBest(): object {
  try {
    return compile('llhttp_simd-wasm')
  } catch {
    return compile('llhttp-wasm')
  }
}

let reader: Reader | undefined
let input = 0

const imports: Imports = {
  wasm_on_message_begin: () => reader?.onBegin() ?? -1,
  wasm_on_url: (_parser, at = 0, length = 0) => reader?.onFirstLine(at - input, at - input + length) ?? -1,
  wasm_on_status: (_parser, at = 0, length = 0) => reader?.onFirstLine(at - input, at - input + length) ?? -1,
  wasm_on_header_field: (_parser, at = 0, length = 0) => reader?.onName(at - input, at - input + length) ?? -1,
  wasm_on_header_value: (_parser, at = 0, length = 0) => reader?.onValue(at - input, at - input + length) ?? -1,
  wasm_on_headers_complete: (_parser, status = 0, isUpgrade, isKeptAlive) =>
    reader?.onHead(status, isUpgrade === 1, isKeptAlive === 1) ?? -1,
  wasm_on_body: (_parser, at = 0, length = 0) => reader?.onBody(at - input, at - input + length) ?? -1,
  wasm_on_message_complete: () => reader?.onComplete() ?? -1,
}

const llhttp = new WebAssembly.Instance(compileBest(), { env: imports }).exports as Exports // as undici calls it

/** The most that is read at once: 64 KiB, the size that Node reads, and a head before it. */
export const inputBytes = 80 * 1024

input = llhttp.malloc(inputBytes)
let memory = new Uint8Array(llhttp.memory.buffer)
let fields = new DataView(llhttp.memory.buffer)

function followMemory(): void {
  if (memory.buffer === llhttp.memory.buffer) return
  memory = new Uint8Array(llhttp.memory.buffer)
  fields = new DataView(llhttp.memory.buffer)
}

export const openParser = (type: 'request' | 'response'): number =>
  llhttp.llhttp_alloc((type === 'request' ? TYPE.REQUEST : TYPE.RESPONSE) ?? -1)

export const closeParser = llhttp.llhttp_free

export const resetParser = llhttp.llhttp_reset

/** Reads at most `inputBytes`, and returns an `ERROR` number. A reader must not call a parser itself. */
export function parse(parser: number, bytes: Uint8Array, by: Reader): number {
  followMemory()
  memory.set(bytes, input)
  reader = by
  try {
    return llhttp.llhttp_execute(parser, input, bytes.length)
  } finally {
    reader = undefined
  }
}

export function parseEnd(parser: number, by: Reader): number {
  reader = by
  try {
    return llhttp.llhttp_finish(parser)
  } finally {
    reader = undefined
  }
}

export const readPosition = (parser: number): number => llhttp.llhttp_get_error_pos(parser) - input

const methodNames: readonly string[] = Object.entries(METHODS).reduce<string[]>((names, [name, code]) => {
  names[code] = name
  return names
}, [])

export const readMethod = (parser: number): string => methodNames[llhttp.llhttp_get_method(parser)] ?? ''

export function readVersion(parser: number): string {
  const major = llhttp.llhttp_get_http_major(parser)
  const minor = llhttp.llhttp_get_http_minor(parser)
  return major === 1 && minor === 1 ? '1.1' : `${major}.${minor}`
}

/** Fields of `llhttp_t` that the build has no function for: `uint64_t content_length` and `uint16_t flags`. */
const lengthAt = 32
const flagsAt = 50

const hasFlag = (parser: number, flag: number | undefined): boolean =>
  flag !== undefined && (fields.getUint16(parser + flagsAt, true) & flag) !== 0

/** Whether the parser decided, at the end of a head, that chunks follow. */
export const isChunked = (parser: number): boolean => hasFlag(parser, FLAGS.CHUNKED)

/** The length that the parser read at the end of a head. Beyond 2^53 it is not exact. */
export const readLength = (parser: number): number | undefined =>
  hasFlag(parser, FLAGS.CONTENT_LENGTH) ? Number(fields.getBigUint64(parser + lengthAt, true)) : undefined

export const pause = ERROR.PAUSED ?? -1

const errorNames = new Map(Object.entries(ERROR).map(([name, code]) => [code, `HPE_${name}`]))

export const nameError = (code: number): string => errorNames.get(code) ?? 'HPE_INTERNAL'

/** Another build may lay out its fields otherwise, and would then tell of framings that it did not read. */
function checkLayout(): void {
  const length = 2 ** 32 + 7
  for (const [lines, wanted] of [
    [`Content-Length: ${length}`, `${length} false`],
    ['Transfer-Encoding: chunked', 'undefined true'],
    ['Transfer-Encoding: gzip', 'undefined false'],
  ] as const) {
    const parser = openParser('response')
    let found = ''
    const proceed = () => 0
    const onHead = (): number => {
      found = `${readLength(parser)} ${isChunked(parser)}`
      return 0
    }
    const ignored = { onBegin: proceed, onFirstLine: proceed, onName: proceed, onValue: proceed, onBody: proceed }
    parse(parser, Buffer.from(`HTTP/1.1 200 OK\r\n${lines}\r\n\r\n`), { ...ignored, onHead, onComplete: proceed })
    closeParser(parser)
    if (found !== wanted) throw new Error(`llhttp has another layout: ${lines} is ${found}`)
  }
}

checkLayout()
