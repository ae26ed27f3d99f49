import t from 'tap'
import { ConfigurationError } from '../../gateway/policy/configuration-error.ts'
import { parsePolicy, parsePolicyInThread } from '../../gateway/policy/load.ts'

const upstreams = new Set(['platform'])

const roles = `organizationRoles:
  - { slug: org-client, name: Client, abilities: [] }
  - { slug: org-member, name: Member, abilities: [] }
  - { slug: org-admin, name: Administrator, abilities: [] }
  - { slug: org-owner, name: Owner, abilities: [] }
`

const row = (index: number, fields = ''): string =>
  `  - { id: r.${index}, match: { path: /r/${index} }, surface: platform, upstream: platform${fields} }\n`

/** Long enough to be read by a thread. */
const writeTable = (count: number, last = ''): ReadonlyMap<string, string> =>
  new Map([
    ['roles.yaml', roles],
    ['routes.yaml', `routes:\n${Array.from({ length: count }, (_, index) => row(index)).join('')}${last}`],
  ])

/** The refusal of a policy, however it was read. */
const refusalOf = async (parse: () => unknown): Promise<string> => {
  try {
    await parse()
    return 'accepted'
  } catch (error) {
    return error instanceof ConfigurationError ? error.message : `not a mistake of the operator's: ${error}`
  }
}

t.test('a long policy read in a thread equals the one read here', async (t) => {
  const texts = writeTable(500)
  const apart = await parsePolicyInThread('policies', texts, upstreams)
  t.strictSame(apart, parsePolicy('policies', texts, upstreams))
  t.equal(apart.routes.at(-1)?.source, 'policies/routes.yaml:501')
  t.ok(Object.isFrozen(apart))
})

t.test('a policy read in a thread has the same mistakes, with their places', async (t) => {
  const mistakes = {
    'of YAML': '  - { id: a, id: b }\n',
    'of the schema': row(500, ', surfce: data'),
    'of meaning': row(500, ', require: { role: nobody }') + row(7),
    'an alias': '  - *somebody\n',
  }
  for (const [what, text] of Object.entries(mistakes)) {
    const texts = writeTable(500, text)
    const refusal = await refusalOf(() => parsePolicyInThread('policies', texts, upstreams))
    t.match(refusal, /^policies\/routes\.yaml:50[12]:\d+: /, what)
    t.equal(refusal, await refusalOf(() => parsePolicy('policies', texts, upstreams)), what)
  }
  t.match(await refusalOf(() => parsePolicyInThread('policies', new Map(), upstreams)), /^policies: holds no policy/)
})

/** More turns prove nothing more, and would take the thread's processor. */
const enoughTurns = 101

/** The turns of the event loop until the work was done, up to `enoughTurns`. */
async function countTurns(work: () => Promise<unknown>): Promise<number> {
  let turns = 0
  let done = false
  const turn = (): void => {
    turns += 1
    if (!done && turns < enoughTurns) setImmediate(turn)
  }
  setImmediate(turn)
  await work()
  done = true
  return turns
}

t.test('everything else goes on while a long table is read, and while it is found to be wrong', async (t) => {
  const sound = writeTable(2_000)
  const wrong = writeTable(2_000, row(2_000, ', require: { role: nobody }'))
  t.equal(
    await countTurns(async () => parsePolicy('policies', sound, upstreams)),
    0,
    'nothing else while it is read here',
  )
  for (const [texts, outcome] of [
    [sound, 'accepted'],
    [wrong, 'policies/routes.yaml:2002'],
  ] as const) {
    const turns = await countTurns(async () =>
      t.match(await refusalOf(() => parsePolicyInThread('policies', texts, upstreams)), outcome),
    )
    t.equal(turns, enoughTurns, 'the event loop turns')
  }
})

t.test('a thread that cannot read is an internal error, and not the operator’s mistake', async (t) => {
  const texts = new Map([...writeTable(500), ['bad.yaml', 7 as unknown as string]])
  t.match(
    await refusalOf(() => parsePolicyInThread('policies', texts, upstreams)),
    /^not a mistake of the operator's: /,
  )
})
