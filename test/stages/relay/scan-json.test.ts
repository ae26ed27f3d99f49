import t from 'tap'
import { isOneOf, readScalar, scanMembers } from '../../../gateway/stages/relay/scan-json.ts'
import { drawNumbers } from '../../support/event-streams.ts'

/** The members of an object, each with the text of its value. */
function skim(json: string): readonly (readonly [key: string, text: string])[] {
  const bytes = Buffer.from(json)
  const members: [string, string][] = []
  scanMembers(bytes, 0, (key, start, end) => {
    members.push([Buffer.from(key, 'latin1').toString(), bytes.toString('utf8', start, end)])
    return true
  })
  return members
}

t.test('only the members of the outermost object are told', async (t) => {
  const json = '{ "type" : "a", "nested": {"type": "b", "list": [{"type": "c"}]}, "n":-1.5e3,"last":null}'
  t.same(skim(json), [
    ['type', '"a"'],
    ['nested', '{"type": "b", "list": [{"type": "c"}]}'],
    ['n', '-1.5e3'],
    ['last', 'null'],
  ])
})

t.test('quotes, brackets and backslashes within a text end nothing', async (t) => {
  const text = '"}],{[\\"\\\\\\"type\\": \\\\"'
  t.same(skim(`{"a":${text},"b":[${text},{"c":${text}}],"d":1}`), [
    ['a', text],
    ['b', `[${text},{"c":${text}}]`],
    ['d', '1'],
  ])
})

t.test('a value that is not an object, or breaks off, ends the walk in silence', async (t) => {
  for (const json of [
    '',
    '[DONE]',
    '[1]',
    '"a"',
    'null',
    '{',
    '{}',
    '{"a"',
    '{"a":',
    '{"a":"b',
    '{"a":[1,2',
    '{a:1}',
    '{"a" 1}',
  ])
    t.same(skim(json), [], json)
  t.same(skim('{"a":1,"b":{"c":'), [['a', '1']])
  t.same(skim('{"a":1 "b":2}'), [['a', '1']])
})

t.test('the walk stops where it is told to', async (t) => {
  let count = 0
  scanMembers(Buffer.from('{"a":1,"b":2,"c":3}'), 0, (key) => ++count > 0 && key !== 'b')
  t.equal(count, 2)
})

t.test('depth costs no stack', async (t) => {
  const depth = 1_000_000
  const nested = '['.repeat(depth) + ']'.repeat(depth)
  t.equal(skim(`{"a":${nested},"b":1}`).length, 2)
})

t.test('scalars are read as JSON, everything else is not', async (t) => {
  const read = (json: string): unknown => readScalar(Buffer.from(json), 0, Buffer.byteLength(json))
  t.same(['"a\\u002eb"', '12', 'true', 'null'].map(read), ['a.b', 12, true, null])
  t.same(['{"a":1}', '[1]', 'nul', '"a', `"${'x'.repeat(600)}"`].map(read), Array(5).fill(undefined))
})

t.test('numbers are read as JSON reads them, however they are written', async (t) => {
  const read = (json: string): unknown => readScalar(Buffer.from(json), 0, Buffer.byteLength(json))
  for (const json of [
    '0',
    '7',
    '10',
    '123456789012345',
    '999999999999999',
    '1234567890123456',
    '12345678901234567890',
    '18014398509481985123',
    '-1',
    '1.5',
    '1e3',
    '0.1',
  ])
    t.equal(read(json), JSON.parse(json), json)
  for (const json of ['', '01', '00', '1x', '+1', '1_000', '.5', '0x10']) t.equal(read(json), undefined, json)
})

t.test('a word is known as it stands, and with escapes', async (t) => {
  const isWord = (json: string) => isOneOf(['end', 'ende'], Buffer.from(json), 0, Buffer.byteLength(json))
  t.same(['"end"', '"ende"', '"\\u0065nd"', '"e\\u006e\\u0064e"'].map(isWord), Array(4).fill(true))
  t.same(
    ['"en"', '"endes"', '"END"', '""', '"\\\\end"', '1', 'true', `"${'x'.repeat(500)}"`].map(isWord),
    Array(8).fill(false),
  )
  t.same(['null', '{"end":1}', '["end"]', 'end', `"${'x'.repeat(600)}"`].map(isWord), Array(5).fill(undefined))
})

/** Any JSON value, with texts that look like JSON. */
function drawValue(draw: () => number, depth: number): unknown {
  const pick = Math.floor(draw() * (depth > 3 ? 4 : 6))
  const text = (): string =>
    Array.from({ length: Math.floor(draw() * 8) }, () => '"\\{}[]:,ä x\n'[Math.floor(draw() * 12)]).join('')
  const size = Math.floor(draw() * 4)
  if (pick === 0) return text()
  if (pick === 1) return Math.floor(draw() * 2000) / 10 - 100
  if (pick === 2) return null
  if (pick === 3) return draw() > 0.5
  if (pick === 4) return Array.from({ length: size }, () => drawValue(draw, depth + 1))
  return Object.fromEntries(Array.from({ length: size }, (_, index) => [`k${index}`, drawValue(draw, depth + 1)]))
}

t.test('the scanner finds what JSON.parse finds', async (t) => {
  const draw = drawNumbers(2)
  for (let round = 0; round < 500; round++) {
    const value = Object.fromEntries(Array.from({ length: 5 }, (_, index) => [`key${index}`, drawValue(draw, 0)]))
    const json = JSON.stringify(value, null, round % 3)
    const found = Object.fromEntries(skim(json).map(([key, text]) => [key, JSON.parse(text)]))
    t.same(found, value, json)
  }
})
