import t from 'tap'
import { MessageParser } from '../../../gateway/http/parser/message-parser.ts'
import { hasOneReading } from '../../../gateway/http/upstream/response-framing.ts'
import { reportProgress } from '../../fuzz/report-progress.ts'
import { composeAnswer, cutAnswer, drawing, judgeAnswer } from '../upstream/planned-answers.ts'

type Read = Readonly<{
  headers: readonly (readonly string[])[]
  body: string
  fault: string | undefined
  isWhole: boolean
}>

/** The reading of these packets, mended as a connection mends them. */
function read(packets: readonly string[]): Read {
  const parser = new MessageParser('response', 64 * 1024)
  const headers: (readonly string[])[] = []
  let body = ''
  let fault: string | undefined
  for (const packet of packets) {
    let rest: Buffer = Buffer.from(packet, 'latin1')
    while (rest.length > 0 && fault === undefined) {
      rest = parser.mend(rest)
      fault = parser.execute(rest)?.code
      const head = parser.takeHead()
      if (head) headers.push(head.headers)
      // As a connection judges a head that was read.
      if (head && (head.status >= 200 ? !hasOneReading(head) : head.status === 101)) fault = 'refused'
      body += Buffer.concat(parser.takeBody()).toString('latin1')
      rest = rest.subarray(parser.consumedBytes)
      if (parser.isComplete && rest.length > 0) parser.next()
    }
  }
  const isWhole = parser.isComplete && fault === undefined
  parser.free()
  return { headers, body, fault, isWhole }
}

const chunked = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'

function expectAlike(text: string, wanted: Partial<Read>): void {
  for (let at = 0; at <= text.length; at += 1)
    t.match(read([text.slice(0, at), text.slice(at)]), wanted, `${text}, ${at}`)
  t.match(read([...text]), wanted, `${text}, byte by byte`)
}

t.test('blanks before a colon of an answer are removed, wherever its bytes are cut (RFC 9112 5.1)', async () => {
  const wanted = { headers: [['X-A', 'a : b', 'Content-Length', '2', 'X-B', '']], body: 'ok', fault: undefined }
  for (const blanks of [' ', '\t', ' \t ', '   '])
    expectAlike(
      `HTTP/1.1 200 OK : x\r\nX-A${blanks}: a : b\r\nContent-Length${blanks}:2\r\nX-B${blanks}:\r\n\r\nok`,
      wanted,
    )
})

t.test('the parser does not take blanks behind a value for a part of it (RFC 9112 5.1)', async () => {
  for (const blanks of ['\t', ' \t', '\t \t'])
    expectAlike(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked${blanks}\r\n\r\n2\r\nok\r\n0\r\n\r\n`, {
      ...{ body: 'ok', fault: undefined, isWhole: true, headers: [['Transfer-Encoding', 'chunked']] },
    })
})

t.test('a body keeps its blanks, and an invalid name is refused', async (t) => {
  const text = 'a : b \t\r\n\r\nc : d\t\r\n'
  t.match(read([`HTTP/1.1 200 OK\r\nContent-Length: ${text.length}\r\n\r\n${text}`]), { body: text, fault: undefined })
  for (const line of [' X: a', 'X Y: a', 'X \r\n', ': a', 'X\x0b: a', 'X\xa0: a', `X${' '.repeat(300)}: a`])
    t.match(read([`HTTP/1.1 200 OK\r\n${line}\r\n\r\n`]), { fault: /^HPE_/, headers: [] }, JSON.stringify(line))
  const many = `X${' '.repeat(200)}: a\r\n`.repeat(40)
  t.match(read([`HTTP/1.1 200 OK\r\n${many}\r\n`]), { fault: /^HPE_/ }, 'more blanks than are taken out')
})

t.test('blanks around a size and in extensions are read over (RFC 9112 7.1)', async () => {
  for (const size of [' 2', '2 ', '\t2\t', ' 002 ;a=b', '2 ; a = b', '2;a="x;\\"y" ; c', '2;a'])
    expectAlike(`${chunked}${size}\r\nok\r\n0${size.slice(size.indexOf('2') + 1)}\r\n\r\n`, {
      ...{ body: 'ok', fault: undefined, isWhole: true },
    })
})

t.test('a field that may not stand in a trailer takes no body with it (RFC 9112 6.5)', async () => {
  const fields = ['Content-Length: 5', 'Transfer-Encoding: chunked', 'Host: h', 'Connection: close', 'A : b', 'A:\xe9']
  for (const field of fields)
    expectAlike(`${chunked}2\r\nok\r\n0\r\n${field}\r\nX-T: t\r\n\r\n`, { body: 'ok', fault: undefined, isWhole: true })
})

t.test('chunks that can be read in two ways are a fault', async (t) => {
  const bodies = {
    'no size': '\r\nok',
    'an extension without a size': ';a\r\nok',
    'a blank in a size': '0 2\r\nok',
    'a sign': '+2\r\nok',
    'hexadecimal as in C': '0x2\r\nok',
    'a huge size': '20000000000000\r\nok',
    'a bare line feed behind a size': '2\nok\r\n0\r\n\r\n',
    'a bare carriage return behind a size': '2\rok\r\n0\r\n\r\n',
    'a bare line feed in an extension': '2;a\n\r\nok\r\n0\r\n\r\n',
    'a line end in quotes': '2;a="\r\nok\r\n0\r\n\r\n',
    'a control character in an extension': '2;a\x01\r\nok\r\n0\r\n\r\n',
    'more than its size': '2\r\nokay\r\n0\r\n\r\n',
    'a bare line feed behind a chunk': '2\r\nok\n0\r\n\r\n',
    'blanks behind a chunk': '2\r\nok \r\n0\r\n\r\n',
    'a trailer without a colon': '0\r\njunk\r\n\r\n',
    'a trailer without a name': '0\r\n: a\r\n\r\n',
    'a folded trailer': '0\r\nA: b\r\n c\r\n\r\n',
    'a folded trailer of blanks': '0\r\nA: b\r\n \r\n\r\n',
    'a bare line feed in a trailer': '0\r\nA: b\nB: c\r\n\r\n',
    'a NUL in a trailer': '0\r\nA: \0\r\n\r\n',
    'a bare end': '0\r\n\n',
    'long sizes': `${'0'.repeat(20_000)}2\r\nok\r\n0\r\n\r\n`,
    'long blanks': `2${' '.repeat(20_000)}\r\nok\r\n0\r\n\r\n`,
    'a long extension': `2;${'a'.repeat(20_000)}\r\nok\r\n0\r\n\r\n`,
    'a long trailer': `0\r\n${'A: b\r\n'.repeat(4_000)}\r\n`,
  }
  for (const [name, body] of Object.entries(bodies)) {
    t.match(read([chunked + body]), { fault: /^HPE_/, isWhole: false }, name)
    if (body.length < 1_000)
      t.match(read([...(chunked + body)]), { fault: /^HPE_/, isWhole: false }, `${name}, in bytes`)
  }
})

t.test('an answer in chunks that stops is not whole', async (t) => {
  const text = `${chunked}2\r\nok\r\n0\r\nA: b\r\n\r\n`
  for (let at = chunked.length; at < text.length; at += 1) {
    const parser = new MessageParser('response', 64 * 1024)
    parser.execute(Buffer.from(text.slice(0, at)))
    t.notOk(parser.finish() && parser.isComplete, `${at}`)
    parser.free()
  }
})

/** As many are read here as are sent through a gateway in `test/http/upstream/answers-differential.test.ts`. */
const campaign = Number(process.env.CAMPAIGN) || 3_000

t.test('generated answers are read as RFC 9112 says, wherever they are cut', async (t) => {
  const seed = Number(process.env.SEED ?? 20_261)
  const drawn = drawing(seed)
  const answers = Array.from({ length: Math.min(campaign, 1_000_000) }).keys()
  for (const number of campaign > 3_000 ? reportProgress(answers, `answers, seed ${seed}`) : answers) {
    const text = composeAnswer(drawn)
    const verdict = judgeAnswer(text)
    const { body, fault, isWhole } = read(cutAnswer(text, drawn))
    const name = `seed ${seed}, answer ${number}: ${JSON.stringify(text)}`
    if (verdict.kind === 'whole') {
      if (fault !== undefined || !isWhole || body !== verdict.body) t.same({ body, fault, isWhole }, verdict, name)
    } else if (isWhole) t.fail(name)
    else if (verdict.kind === 'closed' && (fault !== undefined || body !== verdict.body)) t.same(body, verdict, name)
  }
})
