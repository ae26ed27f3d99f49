import t from 'tap'
import { findLackingFixes, warnOfLackingFixes } from '../../gateway/configuration/node-releases.ts'

const day = (date: string): Date => new Date(`${date}T12:00:00Z`)

const lines = {
  20: { endOfLife: '2026-04-30' },
  22: { endOfLife: '2027-04-30', lastSecurityRelease: { version: '22.23.5', date: '2026-11-11' } },
  24: { endOfLife: '2028-04-30', lastSecurityRelease: { version: '24.22.3', date: '2026-11-11' } },
}

t.test('a Node whose line has ended, or that is older than the last security release, is told', async (t) => {
  for (const [version, date, wanted] of [
    ['v20.20.2', '2026-04-30', undefined],
    ['v20.20.2', '2026-05-01', 'no security fixes since 2026-04-30'],
    ['v22.23.5', '2026-12-01', undefined],
    ['v22.23.4', '2026-12-01', 'lacks the security fixes of 22.23.5 of 2026-11-11'],
    ['v22.9.9', '2026-12-01', 'lacks the security fixes of 22.23.5 of 2026-11-11'],
    ['v22.100.0', '2026-12-01', undefined],
    ['v22.100.0', '2027-05-01', 'no security fixes since 2027-04-30'],
    ['v24.21.0', '2026-12-01', 'lacks the security fixes of 24.22.3 of 2026-11-11'],
    ['v24.22.3', '2026-12-01', undefined],
    ['v24.22.4-rc.1', '2026-12-01', undefined],
    ['v23.11.0', '2026-12-01', 'no security fixes for this line'],
    ['v26.12.1', '2026-12-01', undefined],
  ] as const)
    t.equal(findLackingFixes(version, day(date), lines), wanted, `${version} on ${date}`)
})

t.test('the start warns once, and not of a Node with every fix', async (t) => {
  const told: unknown[] = []
  warnOfLackingFixes({ warn: (...words: readonly unknown[]) => told.push(words) }, day('2100-01-01'))
  t.match(told, [[{ node: process.version, lack: /^no security fixes/ }, 'node lacks security fixes; for trying only']])
  told.length = 0
  warnOfLackingFixes({ warn: (...words: readonly unknown[]) => told.push(words) }, day('2020-01-01'))
  const lack = findLackingFixes(process.version, day('2020-01-01'))
  t.equal(told.length, lack === undefined ? 0 : 1)
})
