/** One final answer as it came over a connection; other bytes have the status 0. */
export type RawAnswer = Readonly<{ status: number; body: string; isLast: boolean }>

/** The final answers in the bytes of one connection, one for each of these requests and perhaps one more. */
export function splitAnswers(text: string, requests: readonly Readonly<{ method: string }>[]): readonly RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf('\r\n\r\n', at)
    const head = text.slice(at, end + 2)
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1])
    if (end < 0 || !status) return [...answers, { status: 0, body: text.slice(at), isLast: true }]
    at = end + 4
    if (status < 200) continue
    // A HEAD that is incomplete is refused like malformed bytes: with a body.
    const isForHead =
      requests[answers.length]?.method === 'HEAD' && (at === text.length || text.startsWith('HTTP/', at))
    const length =
      isForHead || status === 204 || status === 304 ? 0 : Number(/^content-length: (\d+)\r$/im.exec(head)?.[1])
    answers.push({ status, body: text.slice(at, at + length), isLast: /^connection: close\r$/im.test(head) })
    at += length
  }
  return answers
}
