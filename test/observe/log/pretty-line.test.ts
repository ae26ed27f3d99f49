import t from 'tap'
import { formatLine, prettify } from '../../../gateway/observe/log/pretty-line.ts'

const request = {
  level: 'info',
  time: '2026-10-31T08:15:30.123Z',
  requestId: 'r1',
  method: 'GET',
  path: '/datasets',
  status: 200,
  reason: 'allowed',
  durationMs: 3.2,
  msg: 'request',
}

t.test('a line says when, how grave and what, and then the rest by name', async (t) => {
  t.equal(
    formatLine(JSON.stringify(request), false),
    '08:15:30.123 info  request GET /datasets 200 3.2 ms requestId=r1 reason=allowed',
  )
})

t.test('an error and each of its causes stand below, with the place of a bug', async (t) => {
  const error = {
    name: 'GatewayError',
    code: 'internal',
    message: 'no',
    stack: 'at a\n  at b',
    cause: { name: 'Error', message: 'why' },
  }
  const line = formatLine(JSON.stringify({ ...request, level: 'error', msg: 'request failed', error }), false)
  t.same(line.split('\n').slice(1), ['    GatewayError (internal) no', '      at a', '      at b', '    Error why'])
})

t.test('nothing that a client sends moves the cursor or begins a line', async (t) => {
  const hostile = 'a\u001b[2Jb\nlevel=info\r\u009b1mc\u2028d\u202ee'
  const line = formatLine(JSON.stringify({ ...request, path: hostile, userAgent: { [hostile]: hostile } }), false)
  t.notMatch(line, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  t.match(line, 'a\\u001b[2Jb\\u000alevel=info\\u000d\\u009b1mc\\u2028d\\u202ee')
})

t.test('levels have colors only on request, and other text than JSON passes as it is', async (t) => {
  t.match(formatLine(JSON.stringify({ ...request, level: 'warn' }), true), '\u001b[33mwarn \u001b[0m')
  for (const text of ['plain words', '7', 'null']) t.equal(formatLine(text, true), text)
})

t.test('several lines in one write stay several lines', async (t) => {
  const written: string[] = []
  const line = `${JSON.stringify(request)}\n`
  prettify({ write: (text) => written.push(text) }, false).write(line + line, 2)
  t.equal(written.length, 1)
  t.equal(written[0]?.split('\n').length, 3)
})
