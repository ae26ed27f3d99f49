import t from 'tap'
import { readTarget } from '../../../gateway/stages/receive/target.ts'

const read = (target: string, host = 'h') => readTarget('GET', target, host)

const refusalOf = (target: string, host = 'h'): string => {
  try {
    readTarget('GET', target, host)
    return 'none'
  } catch (error) {
    return (error as { code: string }).code
  }
}

t.test('path and query are kept as they came, and the path’s segments are decoded once', async (t) => {
  t.same(read('/a%20b/%2541/%C3%A9?x=%zz&y'), {
    method: 'GET',
    path: '/a%20b/%2541/%C3%A9',
    search: '?x=%zz&y',
    segments: ['a b', '%41', 'é'],
    hasEncodedSlash: false,
  })
})

t.test('a lone question mark is kept, and only the first one counts', async (t) => {
  t.match(read('/a?'), { path: '/a', search: '?' })
  t.match(read('/a??b?'), { path: '/a', search: '??b?' })
  t.match(read('/a'), { path: '/a', search: '' })
})

t.test('a trailing slash is a last, empty segment', async (t) => {
  t.same(read('/a/').segments, ['a', ''])
  t.same(read('/').segments, [''])
})

t.test('path parameters stay in their segment', async (t) => {
  t.same(read('/a;b=c/d;').segments, ['a;b=c', 'd;'])
  t.same(read('/a%3Bb').segments, ['a;b'])
})

t.test('the absolute form of the request’s own host is its path', async (t) => {
  t.match(read('http://h/a?b'), { path: '/a', search: '?b', segments: ['a'] })
  t.match(read('HTTPS://H:80/a', 'h:80'), { path: '/a' })
  t.match(read('http://h'), { path: '/', search: '' })
  t.match(read('http://h?b'), { path: '/', search: '?b' })
})

t.test('the absolute form of another host, or of none, is refused', async (t) => {
  for (const target of [
    'http://other/a',
    'http://h:80/a',
    'http://h.other/a',
    'http://h@other/a',
    'http://other@h/a',
    'http://h\\@other/a',
    'http:///a',
    'http://',
    'http:/a',
    'ftp://h/a',
    '*',
    '',
    'a',
    'h:80',
    '?',
    '\\a',
  ])
    t.equal(refusalOf(target), 'target_malformed', JSON.stringify(target))
})

t.test('a target is 8 KiB at most', async (t) => {
  t.equal(refusalOf(`/${'x'.repeat(8191)}`), 'none')
  t.equal(refusalOf(`/${'x'.repeat(8192)}`), 'target_too_long')
})

t.test('a name with percent signs may be encoded many times over, but not without end', async (t) => {
  const encode = (times: number): string => `/%${'25'.repeat(times)}41`
  t.equal(refusalOf(encode(3)), 'none')
  t.equal(refusalOf(encode(100)), 'target_malformed')
})

const hidden = ['.', '..', '%2e', '%2E%2e', '.%2e', '..;', '..;a', '.;', '%2e%2e;x', '%2e%3b', ';', ';a', '%3b']
t.test('dots are found at every depth of encoding', async (t) => {
  for (const segment of hidden) {
    let encoded = segment
    for (let depth = 0; depth < 4; depth++) {
      t.equal(refusalOf(`/a/${encoded}`), 'target_malformed', encoded)
      t.equal(refusalOf(`/a/${encoded}/b`), 'target_malformed', encoded)
      encoded = encoded.replaceAll('%', '%25').replaceAll('.', '%2e').replaceAll(';', '%3b')
    }
  }
})

t.test('every byte is refused or belongs to exactly one segment, raw and encoded', async (t) => {
  for (let byte = 0; byte < 256; byte++) {
    const escaped = `%${byte.toString(16).padStart(2, '0')}`
    const isEscapeLegal = byte >= 0x20 && byte < 0x7f && byte !== 0x5c
    t.equal(refusalOf(`/a${escaped}b`), isEscapeLegal ? 'none' : 'target_malformed', escaped)
    const raw = String.fromCharCode(byte)
    const isRawLegal = byte > 0x20 && byte < 0x7f && !'#%\\'.includes(raw)
    t.equal(refusalOf(`/a${raw}b`), isRawLegal ? 'none' : 'target_malformed', JSON.stringify(raw))
  }
})

t.test('an encoded slash is told of, for the route to judge; encoded twice it is refused', async (t) => {
  t.match(read('/a%2Fb/c'), { path: '/a%2Fb/c', segments: ['a/b', 'c'], hasEncodedSlash: true })
  t.match(read('/a%20b/c'), { hasEncodedSlash: false })
  for (const path of ['/a%252fb', '/%2f', '/a%2f', '/%2fa', '/a%2f%2fb', '/a%2f..%2fb', '/a%2f.;x%2fb'])
    t.equal(refusalOf(path), 'target_malformed', path)
})

t.test('the query may hold what a path may not, except a fragment or bytes beyond visible ASCII', async (t) => {
  for (const query of ['../..', '%2e%2e%2f', '\\', '//', '%00', '%', ';', '<>"{}|^`'])
    t.equal(refusalOf(`/a?${query}`), 'none')
  for (const query of [' ', '#', '\t', '\x7f', '\xe9', '\0']) t.equal(refusalOf(`/a?${query}`), 'target_malformed')
})
