import { dirname, join, relative } from 'node:path'
import type { World, WorldOptions } from './world.ts'

export function printBanner(
  { description }: World,
  preferred: WorldOptions['ports'],
  file: string,
  elapsedMs: number,
): void {
  const { users, serviceAccounts, organizations } = description
  const oauth = (jwt: string): string => `-H 'x-oauth-access-token: ${jwt}'`
  const tries = [
    ['a human asks for their own user by an OAuth token', `${description.public}/users/me ${oauth(users.owner.jwt)}`],
    [
      'a service account reads datasets; the recorder shows the signed identity the backend got',
      `${description.public}/datasets -H 'Authorization: Bearer ${serviceAccounts.robot.apiKey}'`,
    ],
    ['401: no credential', `${description.public}/datasets`],
    ['403: a client may not read datasets', `${description.public}/datasets ${oauth(users.client.jwt)}`],
    [
      '401: not a member of the organization asked for',
      `${description.public}/datasets -H 'x-organization-id: ${organizations.globex.id}' ${oauth(users.member.jwt)}`,
    ],
  ] as const
  const lines = [
    '',
    `Sallyport demo, ready in ${(elapsedMs / 1000).toFixed(1)} s`,
    `  gateway   ${description.public}${insteadOf(description.public, preferred.public)}`,
    `  decision  ${description.decision}${insteadOf(description.decision, preferred.decision)}  (for proxies: /authorize, /envoy/*)`,
    `  admin     ${description.admin}${insteadOf(description.admin, preferred.admin)}  (console, /healthz, /readyz, /metrics, /.well-known/jwks.json)`,
    `  issuer    ${description.oidc.issuer}  (POST ${description.oidc.mintUrl} signs tokens)`,
    `  recorder  ${description.backends.recorder}/requests  (what reached the backends)`,
    `  files     ${relative('', file)}  (all credentials)`,
    `            ${beside(file, 'gateway.log')}, ${beside(file, 'audit.jsonl')}`,
    '',
    'Try, from another terminal:',
    ...tries.flatMap(([what, call]) => [`  # ${what}`, `  curl -si ${call}`]),
    '',
    'Ctrl-C stops everything.',
    '',
  ]
  process.stdout.write(`${lines.join('\n')}\n`)
}

const beside = (file: string, name: string): string => relative('', join(dirname(file), name))

const insteadOf = (address: string, port: number): string =>
  new URL(address).port === String(port) ? '' : `  (port ${port} is taken)`
