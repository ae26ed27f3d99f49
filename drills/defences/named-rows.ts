import type { Column } from '../../test/support/press/column.ts'

/** A file of `test/advisories`, or one test of it, that cannot run under some columns. */
export type NamedRow = Readonly<{
  file: string
  /** The test's name, from the outermost block to the innermost. Absent: the whole file. */
  test?: string
  columns: readonly Column[] | 'all'
  reason: string
}>

/** These call functions and commands, and no client connects to a gateway: a pressure would find nothing to press. */
const withoutGateway = [
  'ambiguous-names',
  'backend-verification',
  'changes-under-way',
  'compatibility-forms',
  'complexity',
  'cookie-names',
  'declared-organizations',
  'hidden-widenings',
  'imports-at-once',
  'jws-differential',
  'late-changes',
  'logout-floods',
  'query-names',
  'read-turns',
  'reading-costs',
  'repeated-names',
  'small-pieces',
  'spent-key-fetches',
  'spreadsheet-formulas',
  'table',
  'temporary-types',
  'waiting-guesses',
  'watched-writes',
]

/** Their requests and answers are small, come whole and leave at once. */
const holdingNothing = [
  'admin-endpoints',
  'decision-host',
  'framing-permits',
  'issuer-keys-in-clear',
  'token-carriers',
  'token-guesses',
]

const others: readonly NamedRow[] = [
  ...holdingNothing.map((file) => ({
    file,
    columns: ['memory'] as const,
    reason: 'its gateways hold no memory for a client, so that a full budget changes nothing',
  })),
  ...['listener-hosts', 'open-secrets'].map((file) => ({
    file,
    columns: ['reads', 'memory', 'account', 'writes', 'tls'] as const,
    reason: 'it looks at the start of a gateway, which no client uses',
  })),
  {
    file: 'answer-commands',
    test: 'no header that commands a proxy passes in trailers',
    columns: ['writes'],
    reason: 'these trailers are too long and cut the answer, whose head the column still holds',
  },
  {
    file: 'path-confusion',
    test: 'no other spelling of a path is counted in another budget, or in none',
    columns: ['workers'],
    reason: 'it uses a budget up, and without Redis each worker counts a budget of its own',
  },
  {
    file: 'paused-answers',
    columns: ['memory', 'account'],
    reason: 'it reads an upstream without a client, whose bytes and account the column presses',
  },
  {
    file: 'h2c-smuggling',
    test: 'a client that leaves behind an unanswered request takes its upgrade along',
    columns: ['account'],
    reason: 'a throttled client is not read while a byte of it waits, so that its leaving is heard later',
  },
  {
    file: 'callbacks-that-throw',
    columns: ['workers'],
    reason: 'it makes callbacks of its own process throw',
  },
  {
    file: 'callbacks-that-throw',
    test: 'a fault in a client that reads again ends no more than its own connection',
    columns: ['reads', 'account'],
    reason: 'it counts the reads of a client until one throws, and the pressure changes their number',
  },
  {
    file: 'callbacks-that-throw',
    test: 'a fault in a connection that is accepted ends no more than its own connection',
    columns: ['memory'],
    reason: 'it makes a part throw that the pressure calls by itself',
  },
  {
    file: 'late-heads',
    test: 'a client that leaves during a signature, and a connection that breaks then, send nothing',
    columns: ['account'],
    reason: 'a throttled client is not read while a byte of it waits, so that its leaving is heard later',
  },
  {
    file: 'late-heads',
    test: 'a signature that fails is the refusal, and its connection serves no other request',
    columns: ['tls'],
    reason: 'it counts connections, and the end of TLS opens one for a whole handshake alone',
  },
  {
    file: 'late-heads',
    test: 'a reload to another upstream counts for what waits, and for a body that comes at once',
    columns: ['workers'],
    reason: 'it hears of the reload of one process, and the other worker reloads a little later',
  },
  {
    file: 'open-exchanges',
    test: 'a reader that takes nothing is reset, and gets none of what waited for it',
    columns: ['tls'],
    reason: 'it counts bytes that a client took, and the end of TLS takes some ahead of it',
  },
  {
    file: 'open-exchanges',
    test: 'a WebSocket whose client takes nothing is reset, and gets none of what waited for it',
    columns: ['workers', 'tls'],
    reason:
      'it tells a stall by its own clock, and another process or the end of TLS may not have filled its client yet',
  },
  {
    file: 'crowded-listeners',
    columns: ['workers'],
    reason: 'it counts the places of a listener, and each worker has as many',
  },
  {
    file: 'held-memory',
    columns: ['memory', 'account', 'writes', 'workers', 'tls'],
    reason: 'it measures the memory that peers make a gateway hold, which the column changes',
  },
]

export const namedRows: readonly NamedRow[] = [
  ...withoutGateway.map((file) => ({ file, columns: 'all' as const, reason: 'it starts no gateway' })),
  ...others,
]
