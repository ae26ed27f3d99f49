/** How often the event loop is timed, which wakes a gateway that has nothing else to do; also the least lag that is told. */
export const lagEveryMs = 50
