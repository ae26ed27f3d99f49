/** The requests of a crowd, and the behaviour of its upstream. */
export type HeldScene = Readonly<{
  /** A way of held-upstream.ts. */
  upstream: string
  head: string
  /** Said again and again, up to so many bytes. */
  fill: string
  fillBytes: number
  /** The crowd reads nothing of what comes back. */
  isDeaf: boolean
}>

const get = 'GET /x HTTP/1.1\r\nHost: gateway.test\r\n\r\n'
const nothing = { fill: '', fillBytes: 0, isDeaf: false }
const ahead = { fill: get, fillBytes: 256 * 1024 }

export const heldScenes: Readonly<Record<string, HeldScene>> = {
  waiting: { ...nothing, upstream: 'silent', head: get },
  heads: { ...nothing, upstream: 'silent', head: get.replace('\r\n\r\n', `\r\nX-Long: ${'x'.repeat(15_000)}\r\n\r\n`) },
  ahead: { ...nothing, upstream: 'silent', head: get, ...ahead },
  bodies: {
    upstream: 'deaf',
    head: 'POST /x HTTP/1.1\r\nHost: gateway.test\r\nContent-Length: 50000000\r\n\r\n',
    fill: 'x',
    fillBytes: 4 * 1024 * 1024,
    isDeaf: false,
  },
  answers: { ...nothing, upstream: 'large', head: get, isDeaf: true },
  'answers-ahead': { ...nothing, upstream: 'large', head: get, isDeaf: true, ...ahead },
}
