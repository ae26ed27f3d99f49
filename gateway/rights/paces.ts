/**
 * Other times of the folders that feel a change of rights: pauses of a poller, the life of a discovered address, rests of
 * a failing peer. They stand apart from `budget.ts`, so that none is taken for a part of the second.
 */

/** A directory that records no verified addresses is asked again only after this time. */
export const verificationsRestMs = 60_000

/** While the database is out, one read in this time finds out whether it is back; `graceMs` serves the others. */
export const graceRetryMs = 1_000

/** How long a decision point's own metadata are believed, and when they are asked for again after a failure. */
export const metadataMs = { refresh: 3_600_000, retry: 500, timeout: 5_000 } as const

/** An issuer that moved its introspection endpoint is discovered again after a failure, no more often than this. */
export const rediscoverMs = 30_000

/** An inactive token may not become active soon, but an issuer that replicates may have answered too early. */
export const longestNegativeMs = 5_000

/**
 * Pauses of a poller for security events (RFC 8936): after failures, after answers that brought nothing new, and for each
 * refused event. A transmitter that repeats one costs little.
 */
export const pollPausesMs = { first: 1_000, longest: 30_000, longestStall: 5_000, perRefusal: 10 } as const

/** Keys are fetched for an unknown one twice a minute at most, so the transmitter may have just replaced its own. */
export const keyPatienceMs = 60_000

/** Replicas share the asking for verification events; each looks as often whether it is due. */
export const verificationLookMs = 60_000

/** One turn of the event loop for a search in the directory. */
export const searchTurnMs = 5

/** A read of logouts that failed is not repeated by each request, and its failure answers them meanwhile. */
export const logoutRetryMs = 1_000
