import t from 'tap'
import { readFreshMs } from '../../../gateway/stages/consult/answer.ts'

t.test('an answer counts no longer than its own headers say', async (t) => {
  const rows: readonly (readonly [object, number | undefined])[] = [
    [{}, undefined],
    [{ 'cache-control': 'private' }, undefined],
    [{ 'cache-control': 'max-age=5' }, 5_000],
    [{ 'cache-control': 'Max-Age="5"' }, 5_000],
    [{ 'cache-control': 'max-age=5, max-age=2' }, 2_000],
    [{ 'cache-control': 'max-age=5, s-maxage=1' }, 1_000],
    [{ 'cache-control': 'max-age=5', age: '2' }, 3_000],
    [{ 'cache-control': 'max-age=5', age: '9' }, 0],
    [{ 'cache-control': 'max-age=5', age: '-9' }, 0],
    [{ 'cache-control': 'max-age=5', age: 'old' }, 0],
    [{ 'cache-control': 'max-age=5', age: ['1', '2'] }, 0],
    [{ 'cache-control': 'max-age' }, 0],
    [{ 'cache-control': 'max-age=-1' }, 0],
    [{ 'cache-control': 'max-age=1e9' }, 0],
    [{ 'cache-control': 'max-age=5, no-store' }, 0],
    [{ 'cache-control': 'no-cache="x"' }, 0],
    [{ 'cache-control': ['max-age=5', 'no-store'] }, 0],
    [{ 'cache-control': 'private', expires: '0' }, 0],
    [{ expires: '0' }, 0],
    [{ pragma: 'no-cache' }, 0],
  ]
  for (const [headers, expected] of rows) t.equal(readFreshMs({ ...headers }), expected, JSON.stringify(headers))
})
