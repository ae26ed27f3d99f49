import type { World } from '../../demo/world.ts'
import { bearer, oauth } from '../../test/support/world.ts'
import { makeRoutes } from '../peers/ours.ts'
import type { SetUp } from './configure.ts'

type Headers = Readonly<Record<string, string>>

/** One kind of request, and the gateway that gets it. */
export type Row = Readonly<{
  name: string
  of: keyof typeof setUps
  listener?: 'decision'
  path: string
  headers: readonly Headers[]
  /** Every answer has to be one. */
  isRefusal?: true
}>

/** The parts of the world that rows use. */
export type CompareFixture = Readonly<{
  world: World['description']
  /** Many more tokens of each kind than the small cache has room for. */
  jwts: readonly Headers[]
  apiTokens: readonly Headers[]
  cluster: number
}>

export const manyTokens = 2_000

/** Caches that hold half of what is asked in turn never have what comes next. */
const smallCache = { cache: { maxEntries: manyTokens / 2 } }

/** Gateways that are set up in different ways, each a process of its own. */
export const setUps = {
  usual: {},
  workers: { settings: { workers: 2 } },
  smallCache: { settings: smallCache },
  thousand: { routes: makeRoutes(1_000) },
  tenThousand: { routes: makeRoutes(10_000) },
} satisfies Readonly<Record<string, SetUp>>

/** The row that is measured by events, not by requests. */
export const streamsRow = 'event of a stream'

/** As a browser sends them, with what other pages of the site have left. */
const browser: Headers = {
  'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
  accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
  'accept-language': 'en-GB,en;q=0.9,de;q=0.8',
  'accept-encoding': 'gzip, deflate, br, zstd',
  'cache-control': 'max-age=0',
  referer: 'https://app.example.com/datasets?page=2',
  'sec-ch-ua': '"Chromium";v="140", "Not=A?Brand";v="24"',
  'sec-ch-ua-mobile': '?0',
  'sec-ch-ua-platform': '"Linux"',
  'sec-fetch-dest': 'document',
  'sec-fetch-mode': 'navigate',
  'sec-fetch-site': 'same-origin',
  'upgrade-insecure-requests': '1',
  cookie: '_ga=GA1.1.1482919563.1722500000; theme=dark; session=8f14e45fceea167a5a36dedd4bea2543; consent=all',
}

/** All rows in the order of the table. */
export function listRows({ world, jwts, apiTokens, cluster }: CompareFixture): readonly Row[] {
  const { users, serviceAccounts } = world
  const jwt = oauth(users.member)
  const one = [jwt]
  const original = { ...jwt, 'x-original-method': 'GET', 'x-original-uri': '/datasets' }
  return [
    { name: 'API token', of: 'usual', path: '/datasets', headers: [bearer(serviceAccounts.robot.apiKey)] },
    { name: 'JWT', of: 'usual', path: '/datasets', headers: one },
    { name: 'JWT, headers of a browser', of: 'usual', path: '/datasets', headers: [{ ...browser, ...jwt }] },
    { name: 'JWT, names of a file', of: 'usual', path: longPath, headers: one },
    { name: 'JWT, 64 KiB', of: 'usual', path: '/datasets?large=1', headers: one },
    { name: 'JWT, a cluster', of: 'usual', path: `/clusters/${cluster}/proxy/datasets`, headers: one },
    { name: 'JWT, asked by a proxy', of: 'usual', listener: 'decision', path: '/authorize', headers: [original] },
    { name: 'JWT, 2 workers', of: 'workers', path: '/datasets', headers: one },
    { name: 'JWT, every one new', of: 'smallCache', path: '/datasets', headers: jwts },
    { name: 'API token, every one new', of: 'smallCache', path: '/datasets', headers: apiTokens },
    { name: 'JWT, 1,000 routes', of: 'thousand', path: '/bench/999/items/7', headers: one },
    { name: 'JWT, 10,000 routes', of: 'tenThousand', path: '/bench/9999/items/7', headers: one },
    { name: '400, a path to misread', of: 'usual', path: '/datasets/%2e%2e/x', headers: one, isRefusal: true },
    { name: '401, no credential', of: 'usual', path: '/datasets', headers: [{}], isRefusal: true },
    { name: '403, no right to it', of: 'usual', path: '/admin/x', headers: one, isRefusal: true },
    { name: '404, no such route', of: 'usual', path: '/no/such/route', headers: one, isRefusal: true },
  ]
}

/** Capitals, escapes and parameters: more readings than most honest paths have. */
const longPath = '/public/Report%20of%20July%20(Final)/f81d4fae-7dec-11d0-a765-00a0c91e6bf6;v=2/Annual%20Figures.PDF'
