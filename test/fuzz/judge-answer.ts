import { backendMark } from './hostile-answers.ts'

/** One head of what came back to a client. */
export type AnswerHead = Readonly<{ status: number; headers: readonly (readonly [name: string, value: string])[] }>

/** The heads in all that came back: no body of a run has such a line. */
export const readAnswerHeads = (text: string): readonly AnswerHead[] =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3}) [^\r]*\r\n((?:[^\r\n]+\r\n)*)\r\n/g)].map(([, status, lines = '']) => ({
    status: Number(status),
    headers: [...lines.matchAll(/([^:\r\n]+):[ \t]*([^\r\n]*)\r\n/g)].map(([, name = '', value = '']) => [name, value]),
  }))

/** The headers of docs/explanation/commanding-headers.md that some proxy in front would obey. */
const commanding =
  /^(?:x-accel-(?!buffering$)|x-sendfile|x-send-file$|x-lighttpd-|x-litespeed-|x-reproxy-|x-replace-session$|x-envoy-|x-gateway-|surrogate-|edge-control$|grip-|fly-|x-weblogic-|-ws|am-eai-|x-forward$|x-rewrite-)/

/** For the next connection alone (RFC 9110 7.6.1). */
const ofOneHop = /^(?:proxy-(?!status$)|upgrade$|te$|trailer$)/

/** Directives that allow a shared cache one caller's answer (RFC 9111 3.5), or forbid it. */
const cacheRules = /^(?:public|s-maxage|must-revalidate|private|no-store)$/

/** The mistakes of an answer, a sentence each. */
export function judgeAnswer({ status, headers }: AnswerHead, isPublic: boolean): readonly string[] {
  if (status < 200) return status === 100 ? [] : [`an interim answer ${status}`]
  const problems: string[] = []
  for (const [name, value] of headers) {
    const canonical = name.toLowerCase().replace(/[^a-z0-9]/g, '-')
    if (commanding.test(canonical)) problems.push(`the answer commands a proxy: ${name}`)
    if (ofOneHop.test(canonical)) problems.push(`the answer has ${name}`)
    if (!isPublic && /(?:^|-)cache-control$/.test(canonical) && name.toLowerCase() !== 'cache-control')
      problems.push(`some caches obey the answer's ${name}`)
    if (/forged|evil/.test(value)) problems.push(`the answer's ${name} is the backend's word`)
  }
  const all = (wanted: string): readonly string[] =>
    headers.filter(([name]) => name.toLowerCase() === wanted).map(([, value]) => value)
  if (all('content-length').length + all('transfer-encoding').length > 1) problems.push('the answer has two lengths')
  if (all('x-request-id').length === 0) problems.push('the answer has no x-request-id')
  const directives = readDirectives(all('cache-control'))
  const isForwarded = all(backendMark).length > 0
  if (!isForwarded && !directives.includes('no-store')) problems.push(`a ${status} of ours may be stored`)
  const asPragma = all('pragma').length > 0 && directives.includes('no-cache')
  if (isForwarded && !isPublic && !asPragma && !directives.some((directive) => cacheRules.test(directive)))
    problems.push('a shared cache may keep the answer')
  return problems
}

/** The names of directives, without quoted text. */
const readDirectives = (lines: readonly string[]): readonly string[] =>
  lines
    .join(',')
    .replace(/"(?:[^"\\]|\\.)*(?:"|$)/g, '""')
    .split(',')
    .map((part) => (part.split('=', 1)[0] ?? '').trim().toLowerCase())
