/**
 * The second within which a change of rights is felt (SPEC section 6): every millisecond of it, in one place.
 *
 * A fact is believed while the source of changes proves that nothing was missed, and for `factMs` after. An open exchange
 * is judged again when a change names it, when `everything` changed, or when its facts grow old. If they cannot be read
 * in time, it ends. `paths` adds up the times of each way.
 */
export const secondMs = 1_000

/** A fact, an absence or an outsider's answer counts no longer without proof that no change was missed. */
export const factMs = 900

/**
 * The rest of the second after `factMs`: a request whose facts were fresh decides and writes its head in it. A head is
 * written without another look as soon after a confirmation, and an AuthZEN answer that took longer is admitted again.
 */
export const requestMs = 100

/** Heartbeats send no notification. So a cluster that seems silent is read again when this old. */
export const heartbeatMs = 1_000

/**
 * Between two of `everything`: any role of the database may send thousands a second, and each clears all caches and has
 * all that is open judged again. The first acts at once, and the last always.
 */
export const everythingEveryMs = 100

/** One statement notifies of many records, one after another. One scan finds the exchanges that they name. */
export const gatherMs = 10

/**
 * From the first change that names an exchange to its end, if its facts cannot be read and judged by then. Beside `lookMs`
 * that leaves 100 ms for the notification and the end itself.
 */
export const namedMs = 850

/** Age of facts that no change named at which an exchange ends, with `onUnknown: end`: the second less a look and its work. */
export const unprovenMs = 930

/**
 * Age of facts that nothing proves at which they are read again. A read that fails can be repeated before `unprovenMs`, and
 * no caller is read twice in a second while notifications are lost.
 */
export const readAgainMs = 600

/** Between two looks at all that is open: added to each limit above, since an end waits for the next look. */
export const lookMs = 50

/** Between two looks at a table that is followed, such as that of logouts. One costs a comparison. */
export const followMs = 100

/** Between two reads of a followed table: any login may notify, and a flood must not keep a connection busy. */
export const followRestMs = 50

/** Files of policies are compared as often. The loading of a large table takes the rest of the second. */
export const policyLookMs = 150

/** A file may be half written, so that a second look must agree with the first. */
export const policySettleMs = policyLookMs

/** After a reload most requests end by themselves within this time, and need not be broken off. */
export const reloadRestMs = 150

/** After a failed read of facts: often enough for two more within `namedMs`, and no flood at a database that is down. */
export const readRetryMs = 100

/**
 * A crowd's ends are spread over this time, or over what is left of their second, since each closes two connections and
 * other requests go in between.
 */
export const spreadMs = 400

/** Between two ends of a small crowd at most, so that few are not spread over all of `spreadMs`. */
export const longestRestMs = 4

/** Between slices of judging while a crowd is young: others' requests, in a process of its own, need the processor. */
export const sliceRestMs = 2

/** After a full batch of facts, for the database and the requests that wait for it. */
export const batchRestMs = 8

/** Only so long after a crowd's begin are the two rests above taken: what is left belongs to the judging. */
export const restingMs = 300

/** One turn of the event loop on behalf of all that is open: above what one judgement takes, below what a request feels. */
export const sliceMs = 0.5

/**
 * An end has been told for this long; a client that does not take it is cut off, its bytes with it. It is in no path: no
 * byte of the upstream passes after the end, and what is cut off was sent before.
 */
export const cutOffMs = 700

/** A wall clock that moves by less since it was last found set drifts; by more it was set again, and expiries move with it. */
export const clockStepMs = 500

/**
 * The longest rest after an outsider (an issuer, a decision point) failed to answer about an open exchange. With
 * `onUnknown: end` it is a quarter of the time for which unknown rights are borne, so that three more questions fit.
 */
export const askAgainMs = 1_000

/**
 * The parts of one way, in their order, in milliseconds. Reads, judgements and the network take the rest. The second begins
 * with the commit in the database, or with the last write to a file of the policy. How soon a dead source is noticed adds
 * nothing: facts count by the last proof, so those times stand with the connections (`directory/maintain-connection.ts`).
 */
type Path = Readonly<Record<string, number>>

/** For each way of being felt, its parts in the worst case. A test adds them up to at most `secondMs`. */
export const paths: Readonly<Record<string, Path>> = {
  'a request, by cached facts, while the source of changes is dead or frozen': { factMs, requestMs },
  'a request, by an absence': { factMs, requestMs },
  'a request, by the held answer of a decision point': { factMs, requestMs },
  'a request after a logout that was heard by no notification': { factMs, requestMs },
  'a request after a logout, by its followed record': { readAgainMs, followMs, followRestMs, requestMs },
  'a head that is written soon after a confirmation': { requestMs },
  'an open exchange that a change names, its facts unreadable': { namedMs, lookMs },
  'an open exchange among a crowd that one statement names': { gatherMs, restingMs, spreadMs },
  'an open exchange, after everything changed': { everythingEveryMs, restingMs, spreadMs },
  'an open exchange, its facts unreadable, with onUnknown: end': { unprovenMs, lookMs },
  'an open exchange after a logout, by its followed record': { readAgainMs, followMs, followRestMs, gatherMs },
  'an open exchange after a reload': { policyLookMs, policySettleMs, reloadRestMs, lookMs, spreadMs },
  // Of `spreadMs` only what the second has left is taken.
  'an open exchange among a crowd whose change was not heard': { readAgainMs, lookMs, restingMs },
  'an open exchange after a logout that was heard and cannot be read, with onUnknown: end': { unprovenMs, lookMs },
  'an open exchange with an opaque token, beyond its cacheMs': { unprovenMs, lookMs },
  'an open exchange under a decision point, beyond its recheckMs': { unprovenMs, lookMs },
}
