/**
 * The requests in the bytes of one connection: each head as it stood there, and its body without chunk framing, whose
 * borders vary. An incomplete request stays as it is.
 */
export function splitRequests(bytes: Buffer): readonly string[] {
  const requests: string[] = []
  let rest = bytes.toString('latin1')
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n') + 4
    if (end < 4) return [...requests, `unfinished: ${rest}`]
    const head = rest.slice(0, end)
    const body = readBody(head, rest.slice(end))
    if (!body) return [...requests, `unfinished: ${head}`]
    requests.push(head + body.content)
    rest = rest.slice(end + body.length)
  }
  return requests
}

type Body = Readonly<{ content: string; length: number }>

function readBody(head: string, text: string): Body | undefined {
  if (/^transfer-encoding: chunked\r$/im.test(head)) return readChunks(text)
  const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0)
  return text.length < length ? undefined : { content: text.slice(0, length), length }
}

function readChunks(text: string): Body | undefined {
  let content = ''
  let at = 0
  for (;;) {
    const [line, size = ''] = /^([0-9a-f]+)\r\n/.exec(text.slice(at)) ?? []
    if (line === undefined) return undefined
    const start = at + line.length
    const end = start + Number.parseInt(size, 16)
    if (text.slice(end, end + 2) !== '\r\n') return undefined
    content += text.slice(start, end)
    at = end + 2
    if (end === start) return { content, length: at }
  }
}
