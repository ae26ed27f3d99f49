export type RestartDecision = Readonly<{ delayMs: number; quickDeaths: number }>

/** A worker that lived this long has not died of its start. */
const quickMs = 10_000

/** One death costs no capacity for long; a worker that dies at each start takes little of the others' processor. */
const firstDelayMs = 100
const longestDelayMs = 10_000

/** The delay before the next start: none after a life of 10 s or more, else doubled by each quick death in a row. */
export function createRestartBackoff(): (livedMs: number) => RestartDecision {
  let quickDeaths = 0
  return (livedMs) => {
    quickDeaths = livedMs < quickMs ? quickDeaths + 1 : 0
    const delayMs = quickDeaths === 0 ? 0 : Math.min(longestDelayMs, firstDelayMs * 2 ** (quickDeaths - 1))
    return { delayMs, quickDeaths }
  }
}
