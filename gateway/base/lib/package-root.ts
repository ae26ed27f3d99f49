import { existsSync } from 'node:fs'

const above = new URL('../../../', import.meta.url)

/** The folder of the package. Built files lie one folder deeper below it than their sources, in dist/. */
export const packageRoot = existsSync(new URL('package.json', above)) ? above : new URL('../', above)
