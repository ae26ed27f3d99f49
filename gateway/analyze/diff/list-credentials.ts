import type { Roles } from '../../policy/role.ts'
import type { PolicyPair, RoutePair } from './pairs.ts'

/** A credential with its abilities under each policy; undefined is OAuth, which has all of the role's. */
export type ComparedCredential = Readonly<{
  credential: string
  old: readonly string[] | 'absent' | undefined
  new: readonly string[] | undefined
}>

/**
 * A token keeps the abilities that it was minted with. So a changed scope has two kinds of tokens: those minted before,
 * and those minted under the new policy. Tokens with any other abilities of the old policy may exist too.
 */
export function listCredentials(policies: PolicyPair, routes: RoutePair): readonly ComparedCredential[] {
  const minted = listMinted(policies)
  const looked = [...new Set([routes.old?.ability, routes.new?.ability])].filter((ability) => ability !== undefined)
  const writing = listWriting(policies, routes)
  const told = [...new Set([...looked, ...writing])]
  const sign = (abilities: readonly string[]): string => told.filter((ability) => abilities.includes(ability)).join()
  const kept = minted.flatMap(({ old, new: fresh }) => (fresh && old === fresh ? [fresh] : []))
  const seen = new Set(kept.map(sign))
  const { abilities: known } = policies.old.roles.highest
  // A token with all that a route asks for passes as OAuth does, unless it has to write as well.
  const chosenOnes = chooseSome(looked).filter((chosen) => writing.length > 0 || chosen.length < looked.length)
  // One ability that writes is enough for each caller: what a token with more gains, one of them gains with it alone.
  const held = chosenOnes.flatMap((chosen) => [
    chosen,
    ...writing.filter((ability) => !chosen.includes(ability)).map((ability) => [...chosen, ability]),
  ])
  const odd = held
    .filter((chosen) => chosen.every((ability) => known.has(ability)) && !seen.has(sign(chosen)))
    .map((chosen) => ({ credential: nameToken(chosen, looked), old: chosen, new: chosen }))
  return [{ credential: 'oauth', old: undefined, new: undefined }, ...minted, ...odd]
}

/** A token changes the stored organization only if it can write something. */
function listWriting({ old, new: fresh }: PolicyPair, routes: RoutePair): readonly string[] {
  const isAsked = [routes.old, routes.new].some(
    (route) => route?.destination.kind === 'answer' && route.destination.name === 'organizations.switch',
  )
  return isAsked ? [...new Set([...listWriteAbilities(old.roles), ...listWriteAbilities(fresh.roles)])] : []
}

const listWriteAbilities = ({ meanings, highest }: Roles): readonly string[] =>
  [...highest.abilities].filter((ability) => meanings.writeAbilities?.has(ability) ?? ability.endsWith(':write'))

function listMinted({ old, new: fresh }: PolicyPair): readonly ComparedCredential[] {
  const scopes = new Set([...old.roles.tokenScopes.keys(), ...fresh.roles.tokenScopes.keys()])
  return [...scopes].flatMap((scope): readonly ComparedCredential[] => {
    const before = old.roles.tokenScopes.get(scope)
    const after = fresh.roles.tokenScopes.get(scope)
    const kept = before && [...before]
    const isSame = before && after && before.size === after.size && [...before].every((ability) => after.has(ability))
    if (isSame && kept) return [{ credential: scope, old: kept, new: kept }]
    return [
      ...(kept ? [{ credential: `${scope} minted before`, old: kept, new: kept }] : []),
      ...(after ? [{ credential: `${scope} minted anew`, old: kept ?? ('absent' as const), new: [...after] }] : []),
    ]
  })
}

function chooseSome([first, ...rest]: readonly string[]): readonly (readonly string[])[] {
  if (first === undefined) return [[]]
  const others = chooseSome(rest)
  return [...others, ...others.map((some) => [first, ...some])]
}

function nameToken(held: readonly string[], looked: readonly string[]): string {
  const lacking = looked.filter((ability) => !held.includes(ability))
  const parts = [
    ...(held.length > 0 ? [`with ${held.join(', ')}`] : []),
    ...(lacking.length > 0 ? [`without ${lacking.join(', ')}`] : []),
  ]
  return `token ${parts.join(' ') || 'without abilities'}`
}
