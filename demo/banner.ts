import { dirname, join, relative } from 'node:path'
import type { World, WorldOptions } from './world.ts'

export function printBanner(
  { description }: World,
  preferred: WorldOptions['ports'],
  file: string,
  elapsedMs: number,
): void {
  const { organizations, oidc } = description
  const demoFile = relative('', file)
  const print = (credential: string): string => `node -p "require('./${demoFile}').${credential}"`
  const curl = `  curl -si ${description.public}`
  const header = (start: string, credential: string): string => `-H "${start}$(\\\n    ${print(credential)})"`
  const oauth = (user: 'owner' | 'client' | 'member'): string => header('x-oauth-access-token: ', `users.${user}.jwt`)
  const tell = (name: 'public' | 'decision' | 'admin', hint: string): string => {
    const isTaken = new URL(description[name]).port !== String(preferred[name])
    return `${description[name]}  (${hint}${isTaken ? `; port ${preferred[name]} is taken` : ''})`
  }
  const lines = [
    '',
    `Sallyport demo, ready in ${(elapsedMs / 1000).toFixed(1)} s`,
    `  gateway      ${tell('public', 'for clients')}`,
    `  decision     ${tell('decision', 'for other proxies')}`,
    `  admin        ${tell('admin', 'console, metrics')}`,
    `  issuer       ${oidc.issuer}  (POST ${new URL(oidc.mintUrl).pathname} signs tokens)`,
    `  recorder     ${description.backends.recorder}/requests  (as backends got them)`,
    `  credentials  in ${demoFile}; this prints one:`,
    `               ${print('users.owner.jwt')}`,
    `  logs         ${join(dirname(demoFile), 'gateway.log')}, ${join(dirname(demoFile), 'audit.jsonl')}`,
    '',
    'Paste any of these into another terminal, in this folder:',
    '  # a human asks for their own user by an OAuth token',
    `${curl}/users/me ${oauth('owner')}`,
    '  # a service account reads datasets, and the recorder shows its signed identity',
    `${curl}/datasets ${header('Authorization: Bearer ', 'serviceAccounts.robot.apiKey')}`,
    '  # 401: no credential',
    `${curl}/datasets`,
    '  # 403: a client may not read datasets',
    `${curl}/datasets ${oauth('client')}`,
    '  # 401: not a member of the organization asked for',
    `${curl}/datasets -H "x-organization-id: ${organizations.globex.id}" \\\n    ${oauth('member')}`,
    '',
    'Ctrl-C stops everything.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}
