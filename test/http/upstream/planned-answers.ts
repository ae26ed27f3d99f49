/** Draws one of several values. */
export type Draw = <Value>(...values: readonly [Value, ...Value[]]) => Value

/** Draws that a seed repeats (xorshift32): a campaign makes hundreds of thousands in a second. */
export function drawing(seed: number): Draw {
  let state = seed | 1
  return (...values) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return values[(state >>> 0) % values.length] ?? values[0]
  }
}

const blanks = (draw: Draw): string => draw('', '', ' ', ' ', '\t', '  ', ' \t', '\t ', '\t\t', ' \t ')

const line = (name: string, value: string, draw: Draw): string =>
  `${name}${draw('', '', '', ' ', '\t', ' \t ')}:${blanks(draw)}${value}${blanks(draw)}\r\n`

const composeCodings = (draw: Draw): string => {
  const name = draw('Transfer-Encoding', 'transfer-encoding', 'TRANSFER-ENCODING')
  const chunked = draw('chunked', 'chunked', 'chunked', 'chunked', 'Chunked', 'CHUNKED')
  const value = draw(
    ...([chunked, chunked, chunked, chunked, chunked, chunked, chunked, chunked] as const),
    ...[`${chunked},`, `,${chunked}`, `${chunked}, chunked`, `gzip, ${chunked}`, `gzip,${chunked}`, `${chunked}, gzip`],
    ...[`${chunked};q=1`, `"${chunked}"`, 'identity', 'gzip', '', ',', 'xchunked', 'chunkedx', `${chunked} x`],
    ...[`\r\n ${chunked}`, `${chunked}\r\n `, `${chunked}\xa0`, `${chunked}\x0b`, `${chunked}\0`],
  )
  const first = line(name, value, draw)
  return draw(first, first, first, first, first, first, first + line(name, draw('chunked', '', 'gzip'), draw))
}

const composeLength = (length: number, draw: Draw): string => {
  const usual = String(length)
  const value = draw(
    ...([usual, usual, usual, usual, usual, usual] as const),
    ...[`0${usual}`, `+${usual}`, `${usual},${usual}`, `0x${usual}`, '', `${usual}\r\n `, String(length + 3), '1e1'],
  )
  const first = line('Content-Length', value, draw)
  return draw(first, first, first, first, first + line('content-length', usual, draw))
}

const composeExtension = (draw: Draw): string =>
  draw('', '', '', ';a', ';a=b', '; a = b', ' ;a="x;\\"y"', ';a="b" ; c', ';a="\r\n', ';a\x01', '\n', ';\xe9')

const composeSize = (size: number, draw: Draw): string => {
  const digits = draw('', '', '', '0', '000') + draw(size.toString(16), size.toString(16).toUpperCase())
  return `${draw('', '', '', ' ', '\t')}${digits}${draw('', '', '', ' ', '\t', ' \t')}${draw('', '', '', composeExtension(draw))}${draw('\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\r\n', '\n')}`
}

const composeTrailer = (draw: Draw): string =>
  draw(
    ...(['', '', '', ''] as const),
    ...[
      'X-T: t\r\n',
      'Content-Length: 5\r\n',
      'Transfer-Encoding: chunked\r\n',
      'Host : h\r\n',
      'Connection:close\r\n',
    ],
    ...[
      'A: b\r\n c\r\n',
      'A: b\r\n \r\n',
      'junk\r\n',
      ': a\r\n',
      'A: b\nB: c\r\n',
      'A: \0\r\n',
      'A:\xe9\t\r\nB\t:\r\n',
    ],
  )

const composeChunks = (body: string, draw: Draw): string => {
  let text = ''
  for (let at = 0; at < body.length; ) {
    const size = draw(1, 2, 3, 10, 16, 30)
    const piece = body.slice(at, at + size)
    text += `${composeSize(piece.length, draw)}${piece}\r\n`
    at += size
  }
  const whole = `${text}${composeSize(0, draw)}${composeTrailer(draw)}\r\n`
  return draw(whole, whole, whole, whole, whole, whole, whole, whole.slice(0, -3))
}

const composeInterims = (draw: Draw): string => {
  const one = `HTTP/1.${draw(0, 1)} ${draw('100 Continue', '102 Processing', '103 Early Hints', '104', '199 Odd')}\r\n`
  const lines = draw('', '', line('Link', '</a>', draw), 'Content-Length: 4\r\n', 'Transfer-Encoding: chunked\r\n')
  return draw(`${one}${lines}\r\n`, `${one}${lines}\r\n`, `${one}\r\n${one}\r\n`, 'HTTP/1.1 101 Switching\r\n\r\n')
}

/** A final answer of a random framing behind interim ones, well formed or not. Its body holds nothing like a framing. */
export function composeAnswer(draw: Draw, method: 'GET' | 'HEAD' = 'GET'): string {
  const status = draw(200, 200, 200, 200, 200, 200, 404, 204, 304)
  const body = draw('', 'o', 'words', 'many words that make more than one chunk of a body')
  const kind = draw('chunks', 'chunks', 'chunks', 'length', 'length', 'both', 'neither')
  const codings = kind === 'chunks' || kind === 'both' ? composeCodings(draw) : ''
  const length = kind === 'length' || kind === 'both' ? composeLength(body.length, draw) : ''
  const own = draw('', line('X-Own', 'a : b', draw), line('Connection', draw('close', 'keep-alive'), draw))
  const lines = draw(`${codings}${own}${length}`, `${length}${codings}${own}`)
  const interims = draw('', '', '', composeInterims(draw))
  const version = draw('1.1', '1.1', '1.1', '1.0')
  // Bytes behind a head that ends its answer would be another's business: the surplus of a connection.
  const isBare = method === 'HEAD' || status === 204 || status === 304
  const rest = isBare ? '' : kind === 'chunks' || kind === 'both' ? composeChunks(body, draw) : body
  return `${interims}HTTP/${version} ${status}${draw(' OK', '', ' ')}\r\n${lines}\r\n${rest}`
}

export function cutAnswer(text: string, draw: Draw): readonly string[] {
  const share = draw(0, 0, 0, 0.1, 0.25, 0.5, 0.6, 0.75, 0.9, 0.97)
  const at = Math.floor(share * text.length)
  return at === 0 ? [text] : [text.slice(0, at), text.slice(at)]
}

/**
 * How an answer has to be taken: `refused` before its body, `cut` within it, `closed` at the end of its connection.
 * Behind a `whole` one the connection may be kept.
 */
export type Verdict =
  | Readonly<{ kind: 'whole' | 'closed' | 'cut'; status: number; body: string }>
  | Readonly<{ kind: 'refused' }>

const refused: Verdict = { kind: 'refused' }

const statusLine = /^HTTP\/1\.[01] ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/
const fieldLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*:[ \t]*([\t\x20-\x7e\x80-\xff]*)$/
const sizeLine =
  /^[ \t]*([0-9a-f]+)[ \t]*(?:;(?:[\t\x20\x21\x23-\x7e\x80-\xff]|"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t\x20-\x7e\x80-\xff])*")*)?\r\n/i

/** Reads a whole text as RFC 9112 says of a proxy: with patterns, and nothing of the gateway's own. */
export function judgeAnswer(text: string, method: 'GET' | 'HEAD' = 'GET'): Verdict {
  let rest = text
  for (;;) {
    const end = rest.indexOf('\r\n\r\n')
    const [first = '', ...lines] = rest.slice(0, end).split('\r\n')
    const [, status] = statusLine.exec(first) ?? []
    const fields = lines.map((one) => fieldLine.exec(one))
    if (end < 0 || status === undefined || fields.includes(null)) return refused
    rest = rest.slice(end + 4)
    if (status === '101') return refused
    if (status.startsWith('1')) continue
    const valuesOf = (name: string): readonly string[] =>
      fields
        .filter((field) => field?.[1]?.toLowerCase() === name)
        .map((field) => (field?.[2] ?? '').replace(/[\t ]{1,9}$/, ''))
    const verdict = judgeBody(Number(status), rest, valuesOf('transfer-encoding'), valuesOf('content-length'))
    // RFC 9112 6.3: the head ends it, whatever its framing announces.
    return method === 'HEAD' && verdict.kind !== 'refused'
      ? { kind: 'whole', status: Number(status), body: '' }
      : verdict
  }
}

function judgeBody(status: number, rest: string, codings: readonly string[], lengths: readonly string[]): Verdict {
  const [coding] = codings
  const [length] = lengths
  if (codings.length + lengths.length > 1) return refused
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') return refused
  if (length !== undefined && !/^\d+$/.test(length)) return refused
  if (status === 204 || status === 304) return { kind: 'whole', status, body: '' }
  if (coding !== undefined) return judgeChunks(status, rest)
  if (length === undefined) return { kind: 'closed', status, body: rest }
  return { kind: rest.length < Number(length) ? 'cut' : 'whole', status, body: rest.slice(0, Number(length)) }
}

function judgeChunks(status: number, text: string): Verdict {
  let body = ''
  for (let rest = text; ; ) {
    const [line = '', digits] = sizeLine.exec(rest) ?? []
    if (digits === undefined) return { kind: 'cut', status, body }
    const size = Number.parseInt(digits, 16)
    rest = rest.slice(line.length)
    if (size === 0) return { kind: endsInTrailer(rest) ? 'whole' : 'cut', status, body }
    body += rest.slice(0, size)
    if (rest.slice(size, size + 2) !== '\r\n') return { kind: 'cut', status, body }
    rest = rest.slice(size + 2)
  }
}

function endsInTrailer(text: string): boolean {
  if (text.startsWith('\r\n')) return true
  const end = text.indexOf('\r\n\r\n')
  return (
    end >= 0 &&
    text
      .slice(0, end)
      .split('\r\n')
      .every((one) => fieldLine.test(one))
  )
}
