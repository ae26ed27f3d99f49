// Makes the Python environments of `test/pipeline/openai-python.test.ts` in .sallyport/python, unless they are there.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const lists = fileURLToPath(new URL('python', import.meta.url))
const environments = fileURLToPath(new URL('../.sallyport/python', import.meta.url))

for (const list of readdirSync(lists)) {
  const requirements = join(lists, list)
  const folder = join(environments, list.replace(/\.txt$/, ''))
  const python = join(folder, 'bin', 'python')
  const stamp = join(folder, '.requirements')
  const wanted = readFileSync(requirements, 'utf8')
  const isThere = existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted
  // An environment leads to the Python that made it, which may be gone.
  if (isThere && spawnSync(python, ['--version']).status === 0) continue
  console.log(`Installing Python packages for ${folder} …`)
  try {
    execFileSync('python3', ['-m', 'venv', '--clear', folder], { stdio: 'inherit' })
    const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary=:all:']
    execFileSync(python, [...pip, '-r', requirements], { stdio: 'inherit' })
  } catch (error) {
    console.error(`
Python's SDKs could not be installed: ${error.message}
It takes Python 3.10 or newer with venv and pip (Debian: apt-get install python3-venv), and PyPI within reach.
Without them their tests are skipped.`)
    process.exit(1)
  }
  writeFileSync(stamp, wanted)
}
