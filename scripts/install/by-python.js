import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Makes a Python environment with the packages of a list, unless it is there as the list has it. */
export function makeEnvironment(requirements, folder, options = []) {
  const python = join(folder, 'bin', 'python')
  const stamp = join(folder, '.requirements')
  const wanted = readFileSync(requirements, 'utf8')
  const isThere = existsSync(stamp) && readFileSync(stamp, 'utf8') === wanted
  // An environment leads to the Python that made it, which may be gone.
  if (isThere && spawnSync(python, ['--version']).status === 0) return
  console.log(`Installing Python packages for ${folder} …`)
  execFileSync('python3', ['-m', 'venv', '--clear', folder], { stdio: 'inherit' })
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary=:all:', ...options]
  execFileSync(python, [...pip, '-r', requirements], { stdio: 'inherit' })
  writeFileSync(stamp, wanted)
}
