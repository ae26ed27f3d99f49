import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

/** The very packages of a lock. No package's scripts run: nothing here needs them. */
export function installByNpm(list, folder, options = [], stdio = 'inherit') {
  mkdirSync(folder, { recursive: true })
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(list, file), join(folder, file))
  npm(folder, ['ci', ...options], stdio)
}

export function npm(cwd, words, stdio = 'inherit') {
  const path = process.env.npm_execpath
  const [command, first] = path ? [process.execPath, [path]] : ['npm', []]
  const [verb, ...options] = words
  const args = [...first, verb, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', ...options]
  execFileSync(command, args, { cwd, stdio })
}
