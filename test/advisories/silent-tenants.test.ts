import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { createForeignResolver } from '../../gateway/http/upstream/foreign-names.ts'
import type { ResolveName } from '../../gateway/http/upstream/resolver.ts'
import { call } from '../support/client.ts'
import { until } from '../support/gateway.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { nameServerLack, startNameServer } from '../support/name-server.ts'
import { populate } from '../support/population.ts'
import { startServing } from '../support/serve.ts'
import { startTestWorld } from '../support/world.ts'

// Names of all tenants' clusters shared one lookup, which a silent name server holds for ten seconds. Later, equal names of
// two tenants shared one question, which waited behind the silent names of the first.

const run = async (t: Test): Promise<void> => {
  const world = await startTestWorld(t)
  const names = await startNameServer(t)
  names.silence((name) => name.startsWith('silent'))
  const server = createServer((_request, response) => response.setHeader('connection', 'close').end('well'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo // a TCP listener's address is never a string
  const gateway = await startServing(t, {
    within: names.command,
    settings: {
      database: { url: world.databaseUrl },
      timeouts: { connectMs: 3_000 },
      dns: { cacheMs: 100 },
      cluster: { networks: { allow: ['127.0.0.0/8'] } },
    },
  })
  const { insert, assign, addAccount } = await populate(t, world)
  const attacker = await addAccount('attacker')
  const victim = await addAccount('victim')
  const organization = await insert("organizations (slug, name) values ('victim', 'Victim')")
  await assign(victim.id, organization, 'org-member')
  const addCluster = (owner: number, name: string): Promise<number> =>
    insert(
      `clusters (organization_id, name, slug, base_url, last_heartbeat_at) values ($1, $2, $2, $3, now() + interval '1 minute')`,
      [owner, name, `http://${name}.test:${port}`],
    )
  const ask = (id: number, { headers }: typeof victim, at: number) => {
    const path = `/clusters/${id}/proxy/entries`
    return call(gateway.public, { path, headers: { ...headers, 'x-organization-id': String(at) } })
  }
  const silent: number[] = []
  for (let count = 0; count < 8; count++) silent.push(await addCluster(world.organizations.acme.id, `silent${count}`))
  const held = silent.map((id) => ask(id, attacker, world.organizations.acme.id))
  await until(() => names.asked().filter((name) => name.startsWith('silent')).length >= 4, 'the silent lookups')
  for (let count = 0; count < 3; count++) {
    const name = `well${count}`
    names.set(`${name}.test`, '127.0.0.1')
    // A lookup that waits for a silent one outlives `connectMs`, and the request would be 503.
    t.equal((await ask(await addCluster(organization, name), victim, organization)).status, 200)
  }
  // The attacker's question for the same name waits behind its silent ones, and must not be the victim's as well.
  names.set('shared.test', '127.0.0.1')
  const behind = ask(await addCluster(world.organizations.acme.id, 'shared'), attacker, world.organizations.acme.id)
  await setTimeout(100)
  t.equal((await ask(await addCluster(organization, 'shared'), victim, organization)).status, 200)
  await behind
  for (const { status } of await Promise.all(held)) t.equal(status, 503)
  const [first = 0] = silent
  t.equal((await ask(first, attacker, world.organizations.acme.id)).status, 503)
  names.silence(false)
  names.set('silent0.test', '127.0.0.1')
  await until(
    async () => (await ask(first, attacker, world.organizations.acme.id)).status === 200,
    'the end of its rest',
    10_000,
  )
}

testUnlessLacking(t, 'silent names of one tenant keep no first lookup of another out', run, nameServerLack)

type Lookup = readonly [name: string, answer: Parameters<ResolveName>[1]]

function followLookups() {
  let nowMs = 0
  const asked: Lookup[] = []
  const resolver = createForeignResolver({
    ask: (name, answer) => void asked.push([name, answer]),
    monotonicMs: () => nowMs,
  })
  return {
    asked,
    names: () => asked.map(([name]) => name),
    look: (name: string, owner = '1') =>
      new Promise<string>((resolve) =>
        resolver.resolve(name, { owner, isDoubtful: false }, (error) => resolve(error?.code ?? 'found')),
      ),
    end: (code?: string) =>
      asked
        .splice(0)
        .map(([, answer]) => answer(code === undefined ? null : Object.assign(new Error(code), { code }), [])),
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

t.test('organizations take turns, and none has more than a few lookups under way', (t) => {
  const { look, names, end } = followLookups()
  for (let owner = 1; owner <= 20; owner++)
    for (let count = 1; count <= 5; count++) void look(`${owner}-${count}`, `${owner}`)
  t.equal(names().length, 64)
  t.equal(names().filter((name) => name.startsWith('1-')).length, 4)
  void look('late', 'late')
  end('ETIMEOUT')
  t.ok(names().includes('late'), 'the next slot that ends is its own')
  t.end()
})

t.test('a silent name rests, for twice as long after each time-out', async (t) => {
  const { look, asked, end, pass } = followLookups()
  for (const restMs of [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    const answer = look('silent')
    t.equal(asked.length, 1)
    end('ETIMEOUT')
    t.equal(await answer, 'ETIMEOUT')
    pass(restMs - 1)
    t.equal(await look('silent'), 'ETIMEOUT')
    t.equal(asked.length, 0, `no question for ${restMs} ms`)
    pass(1)
  }
  const answer = look('silent')
  end('ENOTFOUND')
  t.equal(await answer, 'ENOTFOUND')
  void look('silent')
  t.equal(asked.length, 1, 'a name server that answers ends the rest')
})

t.test('one organization has a hundred lookups that wait', async (t) => {
  const { look, end, asked } = followLookups()
  for (let count = 0; count < 104; count++) void look(`n${count}`)
  t.equal(await look('one more'), 'ETIMEOUT')
  void look('other', '2')
  t.equal(asked.length, 5)
  while (asked.length > 0) end()
  void look('later')
  t.equal(asked.length, 1, 'no slot is lost')
})
