/** Lines of a backend's answer that command a proxy, imitate the gateway's, or let a cache keep one caller's answer. */
const hostileLines: readonly (readonly string[])[] = [
  [],
  ['X-Accel-Redirect: /admin/x'],
  ['x_accel_redirect: /admin/x', 'X-Accel-Expires: 3600'],
  ['x.accel.redirect: /admin/x', 'X~Accel~Charset: x', 'X-ACCEL-LIMIT-RATE: 1'],
  ['X-Sendfile: /etc/passwd', 'X-LIGHTTPD-send-file: /etc/passwd', 'X-Sendfile2: /etc/passwd 0-9'],
  ['X-LiteSpeed-Location: /admin/x', 'X-LiteSpeed-Cache-Control: public,max-age=9'],
  ['X-Envoy-Overloaded: true', 'x-envoy-upstream-service-time: 1', 'X-Envoy-Immediate-Health-Check-Fail: true'],
  ['X-Gateway-Identity: forged', 'X_Gateway_Status: 200', 'x-gateway-organization: forged'],
  ['Surrogate-Control: max-age=9', 'Surrogate-Key: a', 'Edge-Control: max-age=9d'],
  ['X-Reproxy-URL: http://evil/', 'X-Replace-Session: a', 'Grip-Hold: stream', 'Fly-Replay: app=x'],
  ['X-WebLogic-Cluster-List: 1!evil!80', '$WSEP: evil', '_WS_HAPRT_WLMVERSION: -1', 'am-eai-user-id: root'],
  ['X-Forward: http://evil/', 'X-Rewrite-URI: /admin/x', 'CDN-Cache-Control: max-age=9', 'Cache_Control: public'],
  ['Connection: x-request-id, cache-control', 'Cache-Control: max-age=60'],
  ['Connection: close', 'Proxy-Authenticate: Basic', 'Upgrade: h2c', 'Trailer: x-accel-redirect'],
  ['X-Request-Id: backend-1'],
  ['x-request-id: a', 'X-Request-Id: b'],
  ['x_request_id: a'],
  ['Cache-Control: max-age=3600'],
  ['Cache-Control: max-age=60', 'cache-control: stale-while-revalidate=60'],
  ['Cache-Control: public, max-age=60'],
  ['Cache-Control: s-maxage=60'],
  ['Cache-Control: must-revalidate, max-age=60'],
  ['Cache-Control: no-store'],
  ['Cache-Control: private="set-cookie"'],
  ['Cache-Control: x="a, private", max-age=60'],
  ['Cache-Control: x="a\\", no-store'],
  ['Cache-Control: privately, max-age=60'],
  ['Cache-Control:', 'Expires: Thu, 01 Jan 2099 00:00:00 GMT'],
  ['Pragma: no-cache'],
  ['Pragma: no-cache', 'Cache-Control: max-age=60'],
  ['Expires: Thu, 01 Jan 2099 00:00:00 GMT', 'Age: 5', 'ETag: "a"', 'Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT'],
  ['Vary: *', 'Set-Cookie: a=1', 'Set-Cookie: b=2'],
]

const commandingHint = 'HTTP/1.1 103 Early Hints\r\nX-Accel-Redirect: /admin/x\r\nLink: </a>; rel=preload\r\n\r\n'

/** Tells the backend's own answers from the gateway's. */
export const backendMark = 'x-backend'

/** The bytes that answer the arrival of this number; a request by HEAD gets no body. */
export function answerTo(number: number, method: string): string {
  const lines = hostileLines[number % hostileLines.length] ?? []
  const head = [`HTTP/1.1 200 OK`, `${backendMark}: 1`, ...lines]
  const hint = number % 7 === 0 ? commandingHint : ''
  if (number % 11 === 0 && method !== 'HEAD')
    return `${hint}${[...head, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n2\r\nok\r\n0\r\nX-Accel-Redirect: /admin/x\r\n\r\n`
  return `${hint}${[...head, 'Content-Length: 2'].join('\r\n')}\r\n\r\n${method === 'HEAD' ? '' : 'ok'}`
}
