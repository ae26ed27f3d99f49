// Makes the Python environments of the tests in .sallyport/python, unless they are there.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeEnvironment } from './make-environment.js'

const lists = fileURLToPath(new URL('python', import.meta.url))
const environments = fileURLToPath(new URL('../.sallyport/python', import.meta.url))

try {
  for (const list of readdirSync(lists))
    makeEnvironment(join(lists, list), join(environments, list.replace(/\.txt$/, '')))
} catch (error) {
  console.error(`
Python's packages could not be installed.
${error.message}
It takes Python 3.10 or newer with venv and pip (Debian: apt-get install python3-venv), and PyPI within reach.
Without them their tests are skipped.`)
  process.exit(1)
}
