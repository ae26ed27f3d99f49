import { relative } from 'node:path'
import type { World, WorldOptions } from './world.ts'

export function printBanner(
  { description }: World,
  preferred: WorldOptions['ports'],
  file: string,
  elapsedMs: number,
): void {
  const { organizations, oidc } = description
  const call = (path: string, ...headers: readonly string[]): string =>
    [`  curl -si ${description.public}${path}`, ...headers.map((header) => `    -H "${header}"`)].join(' \\\n')
  const oauth = (user: 'owner' | 'client' | 'member'): string => `x-oauth-access-token: $(demo users.${user}.jwt)`
  const tell = (name: 'public' | 'decision' | 'admin', hint: string): string => {
    const isTaken = new URL(description[name]).port !== String(preferred[name])
    return `${description[name]}  (${hint}${isTaken ? `; port ${preferred[name]} is taken` : ''})`
  }
  const demoFile = relative('', file)
  const lines = [
    '',
    `Sallyport demo, ready in ${(elapsedMs / 1000).toFixed(1)} s`,
    `  gateway   ${tell('public', 'for clients')}`,
    `  decision  ${tell('decision', 'for other proxies')}`,
    `  admin     ${tell('admin', 'console, metrics')}`,
    `  issuer    ${oidc.issuer}  (POST ${new URL(oidc.mintUrl).pathname} signs tokens)`,
    `  recorder  ${description.backends.recorder}/requests  (as backends got them)`,
    `  files     ${demoFile} (credentials), gateway.log, audit.jsonl`,
    '',
    'Paste into another terminal, in this folder:',
    `  demo() { node -p "require('./${demoFile}').$1"; }`,
    '  # a human asks for their own user by an OAuth token',
    call('/users/me', oauth('owner')),
    '  # a service account reads datasets; the recorder shows its signed identity',
    call('/datasets', 'Authorization: Bearer $(demo serviceAccounts.robot.apiKey)'),
    '  # 401: no credential',
    call('/datasets'),
    '  # 403: a client may not read datasets',
    call('/datasets', oauth('client')),
    '  # 401: not a member of the organization asked for',
    call('/datasets', `x-organization-id: ${organizations.globex.id}`, oauth('member')),
    '',
    'Ctrl-C stops everything.',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}
