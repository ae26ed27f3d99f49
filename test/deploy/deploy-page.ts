import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { repository } from '../support/deploy.ts'

const page = readFileSync(join(repository, 'docs/guides/deploy.md'), 'utf8')

const section = page.split(/^## /m).find((part) => part.startsWith('Kubernetes')) ?? ''

/** The commands of the page's section on Kubernetes; in the place of its examples are an issuer and an upstream. */
export const commandsOfPage = (issuer: string, upstream: string): string =>
  [...section.matchAll(/^```sh\n(.*?)^```$/gms)]
    .map(([, block]) => block)
    .join('\n')
    .replaceAll('https://login.example', issuer)
    .replaceAll(/http:\/\/(platform|agents|files|graphql|data):3000/g, upstream)

/** Lays folders of the repository and programs into a folder, for the commands. It returns the folder of the programs. */
export function layRepository(folder: string, programs: Readonly<Record<string, string>>): string {
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  for (const [name, text] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/usr/bin/env bash\nset -eu\n${text}\n`)
    chmodSync(join(bin, name), 0o755)
  }
  for (const name of ['policies', 'helm']) symlinkSync(join(repository, name), join(folder, name))
  return bin
}

/** The package's program in the place of the one that npx would fetch. */
export const npx = `shift; exec node "${join(repository, 'dist/gateway/main.js')}" "$@"`
