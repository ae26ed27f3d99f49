/** The runner's switches for each Node process in which a test starts the program; a bench sets none. */
export const nodeSwitches: readonly string[] = (process.env.SALLYPORT_TEST_SWITCHES ?? '').split(' ').filter(Boolean)
