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
  const sign = (abilities: readonly string[]): string => looked.filter((ability) => abilities.includes(ability)).join()
  const kept = minted.flatMap(({ old, new: fresh }) => (fresh && old === fresh ? [fresh] : []))
  const seen = new Set(kept.map(sign))
  const { abilities: known } = policies.old.roles.highest
  const odd = chooseSome(looked)
    .filter((chosen) => chosen.length < looked.length && chosen.every((ability) => known.has(ability)))
    .filter((chosen) => !seen.has(sign(chosen)))
    .map((chosen) => ({ credential: nameToken(chosen, looked), old: chosen, new: chosen }))
  return [{ credential: 'oauth', old: undefined, new: undefined }, ...minted, ...odd]
}

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
  return `token ${held.length > 0 ? `with ${held.join(', ')} ` : ''}without ${lacking.join(', ')}`
}
