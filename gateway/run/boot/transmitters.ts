import { createHash } from 'node:crypto'
import { isClearFarAway } from '../../base/lib/loopback.ts'
import type { Configuration, TransmitterSettings } from '../../configuration/configuration.ts'
import { createStates, type States } from '../../listeners/signals/verification.ts'
import { isAsSecure } from '../../stages/authenticate/jwks/fetch.ts'
import type { KeySet } from '../../stages/authenticate/jwks/key-set.ts'
import type { Transmitter } from '../../stages/authenticate/security-event.ts'

type Told = Pick<Configuration, 'issuers' | 'transmitters'>

const listSpokenFor = ({ issuer, speaksFor = [issuer] }: TransmitterSettings): readonly string[] => speaksFor

export const listToldIssuers = ({ issuers, transmitters }: Told): ReadonlySet<string> =>
  new Set([
    ...issuers.flatMap(({ issuer, logout }) => (logout ? [issuer] : [])),
    ...transmitters.flatMap(listSpokenFor),
  ])

export function readTransmitters(
  { issuers, transmitters }: Told,
  keysOf: (issuer: string) => KeySet | undefined,
): ReadonlyMap<string, Transmitter> {
  const bounds = new Map(
    issuers.map(({ issuer, maxTokenLifeMs, clockToleranceSeconds: toleranceSeconds }) => [
      issuer,
      { longestLifeSeconds: maxTokenLifeMs / 1000, toleranceSeconds },
    ]),
  )
  return new Map(
    transmitters.map((settings) => {
      const { name, issuer, audience, clockToleranceSeconds, ignoreMembers } = settings
      const keys = keysOf(issuer)
      if (!keys) throw new Error('a transmitter has no keys')
      const transmitter = {
        ...{ name, issuer, clockToleranceSeconds, keys, ignoredMembers: new Set(ignoreMembers) },
        audiences: typeof audience === 'string' ? [audience] : audience,
        speaksFor: new Map(
          listSpokenFor(settings).map((spoken) => [
            spoken,
            bounds.get(spoken) ?? { longestLifeSeconds: 0, toleranceSeconds: 0 },
          ]),
        ),
      }
      return [name, transmitter]
    }),
  )
}

export const hashPushSecrets = ({ transmitters }: Told): ReadonlyMap<string, readonly Buffer[]> =>
  new Map(
    transmitters.flatMap(({ name, push }) => {
      if (!push) return []
      const secrets = typeof push.bearer === 'string' ? [push.bearer] : push.bearer
      return [[name, secrets.map((secret) => createHash('sha256').update(secret).digest())]]
    }),
  )

export const readStates = ({ transmitters }: Told): ReadonlyMap<string, States> =>
  new Map(
    transmitters.flatMap(({ name, verification }) =>
      verification ? [[name, createStates(verification.bearer, name)]] : [],
    ),
  )

const unsafeEndpoint = 'it is not https, or holds a user or fragment. Give its https address alone.'

type Complaints = readonly (readonly [path: readonly (string | number)[], message: string])[]

export function findTransmitterFaults({
  issuers,
  transmitters,
  directory,
  listeners,
}: Told & Pick<Configuration, 'directory' | 'listeners'>): Complaints {
  const issued = new Set(issuers.map(({ issuer }) => issuer))
  return transmitters.flatMap((settings, index) => {
    const { name, issuer, jwksUri, push, poll, verification } = settings
    const complain = (isFault: boolean, key: string, fault: string): Complaints =>
      isFault ? [[['transmitters', index, ...key.split('.')], `transmitter ${name}: ${fault}`]] : []
    const unknown = listSpokenFor(settings).filter((spoken) => !issued.has(spoken))
    const first = transmitters.findIndex((other) => other.name === name)
    const other = transmitters.find((one) => one.issuer === issuer && one.jwksUri !== jwksUri)
    return [
      ...complain(directory.kind === 'claims', 'name', 'events need a database. Set directory.kind to postgres.'),
      ...complain(!push === !poll, 'name', 'it needs one of push and poll. Give the one of its stream.'),
      ...complain(push !== undefined && !listeners.signals, 'push', 'pushes need listeners.signals. Set it.'),
      ...complain(poll !== undefined && !isSafeEndpoint(poll.endpoint), 'poll.endpoint', unsafeEndpoint),
      ...complain(
        verification !== undefined && !isSafeEndpoint(verification.endpoint),
        'verification.endpoint',
        unsafeEndpoint,
      ),
      ...complain(first !== index, 'name', 'the name is used twice. Give each its own.'),
      ...complain(
        unknown.length > 0,
        'speaksFor',
        `${unknown.join(', ')} is not one of issuers[].issuer. Add it there.`,
      ),
      ...complain(jwksUri === undefined && !issued.has(issuer), 'issuer', 'its keys are unknown. Give jwksUri.'),
      // An https issuer's address has its own message.
      ...complain(
        jwksUri !== undefined && isAsSecure(jwksUri, issuer) && isClearFarAway(jwksUri),
        'jwksUri',
        'it is http on another machine, where the network can replace its keys. Give an https address.',
      ),
      ...complain(
        jwksUri !== undefined && issued.has(issuer),
        'jwksUri',
        'the keys are those of issuers[]. Remove it.',
      ),
      ...complain(
        other !== undefined,
        'jwksUri',
        'another transmitter of this issuer has another one. Give both the same.',
      ),
    ]
  })
}

function isSafeEndpoint(endpoint: string): boolean {
  if (!URL.canParse(endpoint)) return false
  const { protocol, username, password } = new URL(endpoint)
  const isSafe = /^https?:$/.test(protocol) && !isClearFarAway(endpoint)
  return isSafe && username + password === '' && !endpoint.includes('#')
}
