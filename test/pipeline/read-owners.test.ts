import t from 'tap'
import { type Owner, readTurns } from '../../gateway/http/socket/read-turns.ts'
import { openRawClient, startTestGateway } from '../support/gateway.ts'
import { startHttpUpstream } from '../support/http-upstream.ts'
import { startTestWorld } from '../support/world.ts'

// A proxy before the gateway leads requests of all tenants over one connection, and so does the gateway's pool behind it.
// An owner that was an object of its open connections had its debts forgotten by each request, and by each connection.

const world = await startTestWorld(t)
let answers = 0
const upstream = await startHttpUpstream(t, (request, response) => {
  request.resume().on('end', () => {
    answers += 1
    response.end(`${'a'.repeat(200_000)} answer ${answers}`)
  })
})
const upload = { surface: 'platform', upstream: 'platform', match: { methods: ['POST'], path: '/upload' } }
const gateway = await startTestGateway(t, {
  world,
  upstreams: { platform: { url: upstream.url } },
  routes: [
    { ...upload, id: 'member', require: { role: 'org-member' } },
    { ...upload, id: 'open', match: { methods: ['POST'], path: '/open' }, access: 'public' },
  ],
})

const charged: Owner[] = []
const charge = readTurns.charge.bind(readTurns)
readTurns.charge = (owner, bytes, ...rest) => {
  if (bytes >= 4_096) charged.push(owner)
  return charge(owner, bytes, ...rest)
}
t.teardown(() => {
  readTurns.charge = charge
})

t.test('each request of a kept connection is read at the cost of its own organization, both ways', async (t) => {
  const client = await openRawClient(t, gateway.public)
  const body = 'b'.repeat(300_000)
  const send = async (path: string, jwt?: string): Promise<ReadonlySet<Owner>> => {
    charged.length = 0
    const credential = jwt === undefined ? '' : `X-Oauth-Access-Token: ${jwt}\r\n`
    const head = `POST ${path} HTTP/1.1\r\nHost: h\r\n${credential}Expect: 100-continue\r\nContent-Length: ${body.length}`
    client.send(`${head}\r\n\r\n`)
    // The body comes after the permit.
    await client.until(new RegExp(`^(?:[^]*?HTTP/1.1 100 ){${answers + 1}}`))
    client.send(body)
    await client.until(new RegExp(` answer ${answers + 1}$`))
    return new Set(charged)
  }
  const [acme, globex, open, acmeAgain] = [
    await send('/upload', world.users.member.jwt),
    await send('/upload', world.users.outsider.jwt),
    await send('/open'),
    await send('/upload', world.users.admin.jwt),
  ]
  t.equal(acme.size, 1, 'the upload and its answer')
  t.equal(globex.size, 1)
  t.equal(open.size, 1)
  t.equal(new Set([...acme, ...globex, ...open]).size, 3)
  t.same([...acmeAgain], [...acme], 'another user of the organization')
  t.equal(upstream.ids().length, 4)
})
