/** What to do after a worker's death: how long to wait, and how many came soon after their start, in a row. */
export type RestartDecision = Readonly<{ delayMs: number; quickDeaths: number }>

/** A worker that lived this long has not died of its start. */
const quickMs = 10_000

const firstDelayMs = 100
const longestDelayMs = 10_000

/** Judges the deaths in one worker's place: the first is made good at once, quick ones in a row ever later. */
export function createRestartBackoff(): (livedMs: number) => RestartDecision {
  let quickDeaths = 0
  return (livedMs) => {
    quickDeaths = livedMs < quickMs ? quickDeaths + 1 : 0
    const delayMs = quickDeaths === 0 ? 0 : Math.min(longestDelayMs, firstDelayMs * 2 ** (quickDeaths - 1))
    return { delayMs, quickDeaths }
  }
}
