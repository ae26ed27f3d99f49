import t from 'tap'
import { formatTable } from '../../../gateway/base/lib/text-table.ts'
import { describeTokens } from '../../../gateway/tools/cli/tokens.ts'

t.test('columns stand below each other', async (t) => {
  t.equal(
    formatTable(
      ['ID', 'NAME', 'X'],
      [
        ['1', 'a long name', 'x'],
        ['1000', '', 'y'],
      ],
    ),
    ['ID    NAME         X', '1     a long name  x', '1000               y', ''].join('\n'),
  )
})

t.test('text from a database cannot steer the terminal', async (t) => {
  const text = formatTable(['NAME'], [['\u001b[2Jred\u0007\u009b\u202eabc\r\nnext']])
  t.equal(text, 'NAME\n?[2Jred???abc??next\n')
})

const now = new Date('2030-01-01T00:00:00Z')
const token = { id: 1, name: null, abilities: [], lastUsedAt: null, expiresAt: null, createdAt: null }

t.test('a token shows its scope where its abilities are one’s, else how many they are', async (t) => {
  const scopes = new Map([
    ['api-key', new Set(['a:read', 'b:read'])],
    ['api-secret', new Set(['a:read', 'b:read', 'a:write'])],
  ])
  const scopeOf = (...abilities: string[]): string =>
    describeTokens([{ ...token, abilities }], scopes, now)
      .split('\n')[1]
      ?.split(/ {2,}/)[2] ?? ''
  t.equal(scopeOf('b:read', 'a:read'), 'api-key')
  t.equal(scopeOf('a:write', 'b:read', 'a:read'), 'api-secret')
  t.equal(scopeOf('b:read'), '1 ability')
  t.equal(scopeOf('a:read', 'c:read'), '2 abilities')
  t.equal(scopeOf(), '0 abilities')
})

t.test('an expired token is told apart', async (t) => {
  const expiryOf = (expiresAt: Date | null) => describeTokens([{ ...token, expiresAt }], new Map(), now)
  t.match(expiryOf(now), /2030-01-01T00:00:00\.000Z \(expired\)/)
  t.notMatch(expiryOf(new Date('2030-01-01T00:00:01Z')), /expired/)
  t.match(expiryOf(null), /never +never/)
})
