import { randomUUID } from 'node:crypto'

/** A path as clients send them: the kind, and a generator of them. */
export type HonestPath = Readonly<{ kind: string; make: (random: () => number) => string }>

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const words = (
  'Annual Report draft FINAL v2.1 (copy) Q3-2026 résumé Übersicht größer 会議の記録 データ отчёт naïve façade 100% ' +
  "O'Brien & Sons #7 [old] Müller_AG 🚀 plan.backup ﬁnal №5 İstanbul"
).split(' ')
const extensions = ['.pdf', '.PDF', '.tar.gz', '.JPG', '.xlsx', '', '.md', '.docx']

const pick = <T>(random: () => number, all: readonly T[]): T => all[Math.floor(random() * all.length)] as T // never empty

const identifier = (random: () => number, length: number): string =>
  Array.from({ length }, () => pick(random, [...alphabet])).join('')

/** A name of words, escaped to `bytes` at most. */
function fileName(random: () => number, bytes: number): string {
  const wanted = Math.floor(random() * bytes)
  const extension = pick(random, extensions)
  let name = pick(random, words)
  for (;;) {
    const longer = `${name} ${pick(random, words)}`
    if (encodeURIComponent(longer + extension).length > wanted) break
    name = longer
  }
  return encodeURIComponent(name + extension)
}

/** Targets of a generated client: ids, UUIDs, and names of files up to 512 bytes long when escaped. */
export const honestPaths: readonly HonestPath[] = [
  { kind: 'number', make: (random) => `/datasets/${Math.floor(random() * 2 ** 31)}/entries` },
  { kind: 'UUID', make: () => `/files/${randomUUID()}` },
  { kind: 'UUID in capitals', make: () => `/files/${randomUUID().toUpperCase()}/content` },
  { kind: 'generated id', make: (random) => `/v1/files/file-${identifier(random, 24)}` },
  { kind: 'long generated id', make: (random) => `/v1/responses/resp_${identifier(random, 200)}/cancel` },
  { kind: 'file name', make: (random) => `/files/${fileName(random, 512)}` },
  { kind: 'folders', make: (random) => `/files/${[1, 2, 3].map(() => fileName(random, 170)).join('/')}` },
]
