import t from 'tap'
import { PreparedHeaders } from '../../gateway/http/prepared-headers.ts'

t.test('headers become the lines of a head', async (t) => {
  const { text, headers } = new PreparedHeaders(['X-One', '1', 'x-two', ''])
  t.equal(text, 'X-One: 1\r\nx-two: \r\n')
  t.same(headers, ['X-One', '1', 'x-two', ''])
  t.equal(new PreparedHeaders([]).text, '')
})

for (const [name, value] of [
  ['x', 'a\r\ny: b'],
  ['x', 'a\n'],
  ['x', '\0'],
  ['x', '\u0100'],
  ['x y', 'a'],
  ['x:', 'a'],
  ['', 'a'],
  ['x\r\ny', 'a'],
  ['Host', 'h'],
  ['content-length', '1'],
  ['Transfer-Encoding', 'chunked'],
  ['connection', 'close'],
  ['upgrade', 'websocket'],
  ['expect', '100-continue'],
] as const)
  t.test(`${JSON.stringify(`${name}: ${value}`)} is not prepared`, async (t) => {
    t.throws(() => new PreparedHeaders(['x-sound', '1', name, value]), TypeError)
    t.throws(() => new PreparedHeaders([name, value]), TypeError, 'nor by itself')
  })
