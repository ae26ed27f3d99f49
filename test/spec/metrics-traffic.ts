import { connect } from 'node:net'
import { readAnswer } from '../support/streams.ts'
import { bearer, oauth, type TestWorld } from '../support/world.ts'

/** One request of each kind that metrics tell apart: answers, refusals, streams that end well or badly, a dead upstream. */
export async function makeTraffic(world: TestWorld): Promise<void> {
  const { member, owner } = world.users
  const { robot } = world.serviceAccounts
  const { clusters, agents, call } = world
  const get = (path: string, headers: Record<string, string> = oauth(member)) => call({ path, headers })
  for (let count = 0; count < 5; count++) await get('/datasets')
  await get('/status', {})
  await get('/users/me', bearer(robot.apiKey))
  await get('/datasets', {})
  await get('/datasets', bearer(robot.expired))
  await get('/admin/x')
  await get('/nowhere')
  await get('/datasets', { ...oauth(owner), 'x-organization-id': '999' })
  await call({ method: 'POST', path: '/graphql', headers: oauth(member), body: '{"query":"{a}"}' })
  await get(`/clusters/${clusters.healthy}/proxy/x`)
  await get(`/clusters/${clusters.stale}/proxy/x`)
  await get(`/clusters/${clusters.unreachable}/proxy/x`)
  await get('/datasets/1', { ...oauth(member), 'x-demo-answer': '{"status":500,"body":"{}"}' })
  await world.raw('nonsense\r\n\r\n')
  await ask(world, agents.acme, undefined)
  await ask(world, agents.acme, [created, { end: 'rst' }])
  await leave(world)
}

const created = { event: { type: 'response.created', sequence_number: 0, response: { id: 'resp_1', created_at: 1 } } }

async function ask({ public: origin, serviceAccounts }: TestWorld, agent: number | undefined, script: unknown) {
  const body = JSON.stringify({ input: 'hi', stream: true, ...(script !== undefined && { metadata: { script } }) })
  const headers = { 'content-type': 'application/json', ...bearer(serviceAccounts.robot.apiKey) }
  const answer = await readAnswer(`${origin}/agent/${agent}/responses`, headers, body)
  await answer.whole()
}

/** A client that closes its connection before the response. */
function leave({ public: origin, users }: TestWorld): Promise<void> {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  const head = `GET /datasets HTTP/1.1\r\nHost: h\r\nx-oauth-access-token: ${users.member.jwt}\r\n\r\n`
  socket.write(head, () => socket.destroy())
  return new Promise((resolve) => socket.once('close', () => resolve()))
}
