import type { Test } from 'tap'
import { overridingFamilies, overridingNames } from '../../../gateway/stages/receive/override-headers.ts'
import type { RecordedRequest } from '../../support/world.ts'
import { oauth } from '../../support/world.ts'
import { identityHeader, refusalOf, testSameArrival, valuesOf } from './arrivals.ts'
import type { IngressFixture } from './fixture.ts'
import type { Manners } from './scenes.ts'

/** No header that holds this may reach a backend. */
const forged = 'forged'

/** Every spelling that some backend reads as this name. */
const spell = (name: string): readonly string[] => [
  name,
  name.replaceAll('-', '_'),
  name.replaceAll('-', '.'),
  name.replaceAll('-', '+'),
  name.replaceAll('-', '~'),
  name.replace(/-(?=\w+$)/, '_').toUpperCase(),
]

const ours = ['x-gateway-identity', 'x-gateway-status', 'x-gateway-anything'].flatMap(spell)
const aliases = ['x-organization-id', 'x-oauth-access-token', 'authorization', 'x-request-id'].flatMap((name) =>
  spell(name)
    .slice(1)
    .filter((other) => other.toLowerCase() !== name),
)
const original = ['x-original-url', 'x-original-uri', 'x-original-method', 'x-forwarded-uri', 'x-forwarded-method']
const clients = ['x-forwarded-for', 'x-forwarded-host', 'x-forwarded-prefix', 'forwarded', 'x-real-ip']
const families = overridingFamilies.map((family) => `${family}any`)

const groups: Readonly<Record<string, readonly string[]>> = {
  'the headers of the gateway': ours,
  'other spellings of headers that decide': aliases,
  'another original request': original.flatMap(spell),
  'another client': clients.flatMap(spell),
  // A proxy takes some hundred lines at most.
  'other targets, methods, hosts and schemes': [...overridingNames],
  'what a proxy in front would say of a request or its user': [...families, 'remote-user', 'x-middleware-subrequest'],
}

/** A client's claims in the name of a gateway or of a proxy change nothing, and do not arrive. */
export function testSpoofed(t: Test, fixture: IngressFixture, manners: Manners): void {
  const { member, homeless, owner } = fixture.world.users
  for (const [name, names] of Object.entries(groups)) {
    const headers = Object.fromEntries(names.map((line) => [line, `/public/${forged}`]))
    t.test(`a request that forges ${name} passes without it`, async (t) => {
      const request = { path: '/datasets', headers: { ...headers, ...oauth(member) } }
      const before = fixture.backend.list().length
      await testSameArrival(t, fixture, manners, request)
      t.same(fixture.backend.list().slice(before).flatMap(forgeriesOf), [])
    })
    t.test(`a request that forges ${name} is refused as without it`, async (t) => {
      const request = { path: '/admin/x', headers: { ...headers, ...oauth(member), 'x-request-id': 'scene-3' } }
      const front = await fixture.front.ask(request)
      t.same(refusalOf(front.answer), refusalOf((await fixture.alone.ask(request)).answer))
      t.equal(front.answer.status, 403)
      t.same(front.arrivals, [])
    })
  }

  for (const [path, headers] of [
    ['/status', {}],
    ['/status', oauth(owner)],
    ['/public/x', oauth(homeless)],
  ] as const)
    t.test(`${path} without an identity or an organization gets no forged one`, async (t) => {
      const isPublic = path === '/status'
      const claim = { [identityHeader]: forged, ...(isPublic && { 'x-organization-id': '1' }), x_organization_id: '1' }
      const { answer, arrivals } = await fixture.front.ask({ path, headers: { ...headers, ...claim } })
      t.equal(answer.status, 200)
      t.equal(arrivals.length, 1)
      for (const arrival of arrivals) {
        t.same(valuesOf(arrival, 'x-organization-id'), [])
        t.same(valuesOf(arrival, 'x_organization_id'), [])
        if (isPublic) t.same(valuesOf(arrival, identityHeader), [])
        else t.equal((await fixture.front.verify(arrival)).user.id, homeless.id)
        t.same(forgeriesOf(arrival), [])
      }
    })

  t.test('Connection takes no header of the gateway away', async (t) => {
    const connection = 'x-gateway-identity, x-organization-id'
    await testSameArrival(t, fixture, manners, { path: '/datasets', headers: { ...oauth(member), connection } })
  })

  t.test('no other protocol is offered to the backend', async (t) => {
    const upgrade = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABkAAQAAP__' }
    const { answer, arrivals } = await fixture.front.ask({
      path: '/datasets',
      headers: { ...oauth(member), ...upgrade },
    })
    t.equal(answer.status, 200)
    t.equal(arrivals.length, 1)
    for (const arrival of arrivals)
      for (const name of ['upgrade', 'http2-settings']) t.same(valuesOf(arrival, name), [], name)
  })
}

const forgeriesOf = ({ headers }: RecordedRequest) => headers.filter(([, value]) => value.includes(forged))
