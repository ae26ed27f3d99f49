import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { call } from '../support/client.ts'
import { decisionPoints } from '../support/decision-points.ts'
import { makeFolder, repository } from '../support/deploy.ts'
import { startTestGateway, until } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { oauth, startTestWorld } from '../support/world.ts'

const viewer = { pdp: 'real', action: 'viewer' }
const named = (param: string) => ({ type: 'document', param })

const route = (id: string, path: string, decision: object, more: object = {}) => ({
  id,
  match: { path },
  surface: 'platform',
  upstream: 'platform',
  require: { role: 'org-member' },
  decision,
  ...more,
})

function writePolicies(t: Test): string {
  const folder = makeFolder(t)
  copyFileSync(join(repository, 'policies', 'roles.yaml'), join(folder, 'roles.yaml'))
  const resources = { file: { id: 'text', owner: true, visibility: true, decision: viewer } }
  const routes = [
    route('document', '/documents/:id', { ...viewer, resource: named('id') }),
    route('discovered', '/discovered/:id', { ...viewer, pdp: 'discovered', resource: named('id') }),
    route('unknown', '/unknown/:id', { ...viewer, action: 'editor', resource: named('id') }),
    route(
      'both',
      '/documents/:document/files/:id',
      { ...viewer, resource: named('document') },
      { resource: { kind: 'file', param: 'id' } },
    ),
  ]
  writeFileSync(join(folder, 'routes.yaml'), JSON.stringify({ resources, routes }))
  return folder
}

type Point = Omit<(typeof decisionPoints)[number], 'lack'>

async function tryRealOne(t: Test, { start, ofUnknownAction, ofUnknownUser, byMetadata }: Point): Promise<void> {
  const world = await startTestWorld(t)
  const { users } = world
  const { acme, globex: foreign } = world.objects.files
  const real = await start(t, users.member.id, acme)
  const settings = { headers: real.headers, deadlineMs: 10_000, cacheMs: 0 }
  const upstream = await startHttpUpstream(t)
  const gateway = await startTestGateway(t, {
    world,
    upstreams: { platform: { url: upstream.url } },
    settings: {
      policies: { directory: writePolicies(t) },
      decisionPoints: {
        real: { ...settings, url: real.url },
        discovered: { ...settings, url: real.identifier, discover: true },
      },
    },
  })
  const knock = async (path: string, user: { jwt: string } = users.member) => {
    const { status, text, json } = await call(gateway.public, { path, headers: oauth(user) })
    return status === 200 ? '200' : `${status} ${json().error?.code ?? text}`
  }
  t.equal(await knock('/documents/plan'), '200')
  t.equal(await knock(`/documents/plan/files/${acme}`), '200', 'a batch')
  t.equal(await knock('/discovered/plan'), byMetadata, 'by its metadata')
  const arrived = upstream.ids().length
  const refusal = byMetadata === '200' ? '403 decision_refused' : byMetadata
  t.equal(await knock('/discovered/other'), refusal, 'another document, by its metadata')
  t.equal(await knock('/documents/other'), '403 decision_refused', 'another document')
  t.equal(await knock('/documents/plan', users.admin), ofUnknownUser, 'another user')
  t.equal(await knock(`/documents/other/files/${acme}`), '403 decision_refused', 'a batch with one yes')
  t.equal(await knock(`/documents/other/files/${foreign}`), '404 resource_not_found', 'a foreign file')
  t.equal(await knock('/unknown/plan'), ofUnknownAction, 'an unknown action')
  await real.kill()
  for (let count = 0; count < 8; count++) t.equal(await knock('/documents/plan'), '503 decision_unavailable', 'killed')
  t.equal(upstream.ids().length, arrived, 'nothing reached the backend')
  await real.start()
  await until(async () => (await knock('/documents/plan')) === '200', 'a permit of the one that was started again')
  t.equal(await knock('/documents/other'), '403 decision_refused')
}

for (const { lack, ...point } of decisionPoints)
  testUnlessLacking(t, `a real ${point.name} is asked`, (t) => tryRealOne(t, point), lack)
