import t from 'tap'
import { EventSplitter } from '../../../gateway/stages/relay/split-events.ts'
import { cutAtRandom, cutEverywhere, drawNumbers } from '../../support/event-streams.ts'

type Blocks = Readonly<{ blocks: readonly string[]; rest: string; isTooLarge: boolean }>

/** The blocks that a stream in these pieces is cut into, and what stays behind. */
function splitAll(pieces: readonly Buffer[], limitBytes = 1_000_000): Blocks {
  const splitter = new EventSplitter(limitBytes)
  const blocks: string[] = []
  let passedBytes = 0
  for (const piece of pieces) {
    const { bytes, ends, isTooLarge } = splitter.split(piece)
    for (const [index, end] of ends.entries()) blocks.push(bytes.toString('latin1', ends[index - 1] ?? 0, end))
    passedBytes += ends.at(-1) ?? 0
    if (isTooLarge) return { blocks, rest: '', isTooLarge }
  }
  return { blocks, rest: Buffer.concat(pieces).toString('latin1', passedBytes), isTooLarge: false }
}

const splitText = (...pieces: readonly string[]): Blocks => splitAll(pieces.map((piece) => Buffer.from(piece)))

for (const [name, lineEnd] of [
  ['LF', '\n'],
  ['CR LF', '\r\n'],
  ['CR', '\r'],
] as const) {
  t.test(`an event ends behind a blank line of ${name}`, async (t) => {
    const event = `event: a${lineEnd}data: 1${lineEnd}${lineEnd}`
    t.same(splitText(event + event), { blocks: [event, event], rest: '', isTooLarge: false })
  })
}

t.test('line ends may be mixed', async (t) => {
  for (const blank of ['\n\n', '\r\r', '\r\n\r\n', '\n\r\n', '\r\n\n', '\n\r', '\r\n\r'])
    t.same(splitText(`data: 1${blank}data`).blocks, [`data: 1${blank}`], JSON.stringify(blank))
})

t.test('CR LF is one line end, wherever it is cut', async (t) => {
  t.same(splitText('data: 1\r', '\ndata: 2\r\n', '\r\n'), {
    blocks: ['data: 1\r\ndata: 2\r\n\r\n'],
    rest: '',
    isTooLarge: false,
  })
})

t.test('an event whose last CR has come is not kept waiting for an LF', async (t) => {
  t.same(splitText('data: 1\r\n\r', '\n', 'data: 2\r\n\r', 'data: 3\r\r').blocks, [
    'data: 1\r\n\r',
    '\n',
    'data: 2\r\n\r',
    'data: 3\r\r',
  ])
})

t.test('blank lines more than one pass by themselves', async (t) => {
  t.same(splitText('\n\n', '\r\n', 'data: 1\n\n\n').blocks, ['\n', '\n', '\r\n', 'data: 1\n\n', '\n'])
})

t.test('half an event stays behind', async (t) => {
  t.same(splitText('data: 1\n\nevent: b\nda', 'ta: 2\n'), {
    blocks: ['data: 1\n\n'],
    rest: 'event: b\ndata: 2\n',
    isTooLarge: false,
  })
})

/** The places where a stream may be cut, found by reading all of it forwards. */
function splitWhole(text: string): readonly string[] {
  const blocks: string[] = []
  let block = ''
  for (const [line] of text.matchAll(/[^\r\n]*(?:\r\n|\r|\n)/g)) {
    block += line
    if (!/^[\r\n]/.test(line)) continue
    blocks.push(block)
    block = ''
  }
  return blocks
}

t.test('chunks never change what passes', async (t) => {
  const draw = drawNumbers(1)
  const parts = ['\n', '\r', '\r\n', 'data: x', ':', '\ufeff', 'event: ä', 'a']
  for (let round = 0; round < 300; round++) {
    const text = Array.from({ length: 12 }, () => parts[Math.floor(draw() * parts.length)]).join('')
    const whole = splitWhole(text).join('')
    const bytes = Buffer.from(text)
    for (const pieces of [...cutEverywhere(bytes), cutAtRandom(bytes, draw)]) {
      const { blocks } = splitAll(pieces)
      const passed = Buffer.from(blocks.join(''), 'latin1').toString()
      if (passed !== whole) t.fail(JSON.stringify({ text, pieces: pieces.map(String), passed }))
    }
    t.same(
      splitAll([bytes]).blocks,
      splitWhole(text).map((block) => Buffer.from(block).toString('latin1')),
    )
  }
})

t.test('an event of exactly the limit passes, one byte more does not', async (t) => {
  const event = Buffer.from(`data: ${'x'.repeat(92)}\n\n`)
  t.equal(event.length, 100)
  for (const pieces of cutEverywhere(event)) {
    t.match(splitAll(pieces, 100), { blocks: [String], isTooLarge: false })
    t.same(splitAll(pieces, 99), { blocks: [], rest: '', isTooLarge: true })
  }
})

t.test('events before one that is too large are split off, and it is refused before its end', async (t) => {
  const pieces = [Buffer.from('data: 1\n\ndata: 2\n\ndata: xxxxx'), Buffer.from('xxxxx')]
  t.same(splitAll(pieces, 12), { blocks: ['data: 1\n\n', 'data: 2\n\n'], rest: '', isTooLarge: true })
  const whole = [Buffer.from('data: 1\n\ndata: xxxxxxxxxxxxxxxxx\n\ndata: 3\n\n')]
  t.same(splitAll(whole, 12), { blocks: ['data: 1\n\n'], rest: '', isTooLarge: true })
})

t.test('the passed bytes are the upstream’s own memory, not a copy', async (t) => {
  const chunk = Buffer.from('data: 1\n\ndata: 2\n\n')
  t.equal(new EventSplitter(100).split(chunk).bytes, chunk)
})

t.test('a large event in small pieces costs time in proportion to its size', async (t) => {
  const measure = (size: number): number => {
    const splitter = new EventSplitter(size * 2)
    const piece = Buffer.alloc(64, 'x')
    const before = process.cpuUsage()
    for (let sent = 0; sent < size; sent += piece.length) splitter.split(piece)
    t.equal(splitter.split(Buffer.from('\n\n')).ends.length, 1)
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
  // Processor time, and the least of a few, because of other programs and collections of garbage.
  const least = (size: number): number => Math.min(...Array.from({ length: 5 }, () => measure(size)))
  const [small, large] = [least(1_000_000), least(16_000_000)]
  // 16 times the size; a rescan of what is held would make it 256 times the time.
  t.ok(large < Math.max(small, 5) * 80, `${small.toFixed(1)} ms, ${large.toFixed(1)} ms`)
})
