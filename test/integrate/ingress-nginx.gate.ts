import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { overridingNames } from '../../gateway/stages/receive/override-headers.ts'
import { bearer, oauth, startTestWorld } from '../support/world.ts'
import { testAllowed } from './ingress/allowed.ts'
import { identityHeader, valuesOf } from './ingress/arrivals.ts'
import { testCommands } from './ingress/commands.ts'
import { type Places, placeExample, testShown, writeFolder } from './ingress/examples.ts'
import { startIngressFixture } from './ingress/fixture.ts'
import { testHostilePaths } from './ingress/hostile-paths.ts'
import { testOutages } from './ingress/outages.ts'
import { type Program, testProxy } from './ingress/programs.ts'
import type { Manners } from './ingress/scenes.ts'
import { startProgram } from './ingress/start-program.ts'

const world = await startTestWorld(t)

/** The data of a ConfigMap of the example. */
function readMap(example: string, name: string): Readonly<Record<string, string>> {
  const maps = parseAllDocuments(example).map((document) => document.toJS())
  return maps.find(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === name).data
}

/** The lines that a ConfigMap of the example becomes. */
function setHeaders(example: string, name: string): string {
  return Object.entries(readMap(example, name))
    .map(([header, value]) => `proxy_set_header ${header} "${value}";`)
    .join('\n')
}

/** The controller's configuration for the annotations, as far as it matters to the request and to the decision. */
const compose = (example: string, places: Places): string => `
error_log stderr;
pid nginx.pid;
daemon off;
master_process off;
events {}
http {
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  large_client_header_buffers 4 16k;
  client_max_body_size 100m;
  map $http_x_request_id $req_id { default $http_x_request_id; "" $request_id; }
  ${readMap(example, 'ingress-nginx-controller')['http-snippet']}
  server {
    listen ${places.front};
    proxy_http_version 1.1;
    proxy_buffering off;
    proxy_request_buffering off;
    location = /_external-auth {
      internal;
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Forwarded-Proto "";
      proxy_set_header X-Request-ID $req_id;
      proxy_method GET;
      proxy_set_header X-Original-URI $request_uri;
      proxy_set_header X-Scheme $scheme;
      proxy_set_header Host sallyport-decision.sallyport.svc.cluster.local;
      proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
      proxy_set_header X-Original-Method $request_method;
      proxy_set_header X-Sent-From nginx-ingress-controller;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Auth-Request-Redirect $request_uri;
      ${setHeaders(example, 'to-sallyport')}
      proxy_pass http://127.0.0.1:${places.decision}/authorize?statuses=nginx;
    }
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-Proto $scheme;
    location ~ ^/(users/me|organizations|clusters|agent)(/|$) {
      proxy_pass http://127.0.0.1:${places.public};
    }
    location / {
      auth_request /_external-auth;
      auth_request_set $authHeader0 $upstream_http_x_gateway_identity;
      proxy_set_header 'X-Gateway-Identity' $authHeader0;
      auth_request_set $authHeader1 $upstream_http_x_organization_id;
      proxy_set_header 'X-Organization-Id' $authHeader1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Request-ID $req_id;
      proxy_set_header X-Real-IP $remote_addr;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Port $server_port;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Scheme $scheme;
      proxy_set_header X-Scheme $scheme;
      proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
      proxy_set_header Proxy "";
      ${setHeaders(example, 'to-backends')}
      proxy_pass http://127.0.0.1:${places.backend};
    }
  }
}
`

async function startNginx(t: Test, { path }: Program, places: Places): Promise<void> {
  const folder = writeFolder(t, { 'nginx.conf': compose(placeExample('ingress-nginx.yaml', places), places) })
  await startProgram(t, { path, args: ['-p', folder, '-c', 'nginx.conf'], folder, port: places.front })
}

testShown(t, 'nginx.md', ['ingress-nginx.yaml'])

testProxy(t, 'nginx', async (t, program) => {
  const fixture = await startIngressFixture(t, world, (t, places) => startNginx(t, program, places))
  const { member } = world.users
  const adds = ['x-real-ip', 'x-forwarded-port', 'x-forwarded-scheme', 'x-scheme', 'x-original-forwarded-for']
  const manners: Manners = { forwards: 'itself', adds, gatewayDown: { decision: 500, public: 502 }, backendDown: 502 }
  testAllowed(t, fixture, manners)
  testHostilePaths(t, fixture)
  testCommands(t, fixture)
  testOutages(t, fixture, manners)

  t.test('a refused request is 401 or 403, and does not arrive', async (t) => {
    for (const [status, path, headers] of [
      [401, '/datasets', {}],
      [401, '/datasets', bearer(world.serviceAccounts.robot.revoked)],
      [403, '/admin/x', oauth(member)],
      [403, '/nowhere', oauth(member)],
      [403, '/datasets', { ...oauth(member), 'x-organization-id': 'abc' }],
    ] as const) {
      const { answer, arrivals } = await fixture.front.ask({ path, headers })
      t.equal(answer.status, status, path)
      t.same(arrivals, [])
    }
  })

  t.test('a forged identity, organization or original request changes nothing', async (t) => {
    const forged = {
      ...{ 'x-gateway-identity': 'forged', x_gateway_identity: 'forged', 'x.gateway.identity': 'forged' },
      ...{ 'x-original-method': 'DELETE', 'x-original-uri': '/public/forged', 'x-original-url': '/public/forged' },
      ...{ 'x-forwarded-method': 'DELETE', 'x-forwarded-uri': '/public/forged', 'x-rewrite-url': '/forged' },
    }
    for (const [path, headers] of [
      ['/datasets', oauth(member)],
      ['/status', { 'x-organization-id': '1' }],
    ] as const) {
      const { answer, arrivals } = await fixture.front.ask({ path, headers: { ...forged, ...headers } })
      t.equal(answer.status, 200)
      for (const arrival of arrivals) {
        const [identity] = valuesOf(arrival, identityHeader)
        if (path === '/status') t.same([identity, valuesOf(arrival, 'x-organization-id')], [undefined, []])
        else await t.resolves(fixture.front.verify(arrival))
        t.notMatch(JSON.stringify(arrival.headers), 'forged')
      }
    }
    const { answer, arrivals } = await fixture.front.ask({ path: '/admin/x', headers: { ...forged, ...oauth(member) } })
    t.equal(answer.status, 403)
    t.same(arrivals, [])
  })

  t.test('no header that speaks of another request, or of a user, passes in its plain spelling', async (t) => {
    const users = ['remote-user', 'remote-groups', 'x-remote-user', 'x-webauth-user', 'x-auth-request-email']
    const further = [...users, 'x-ms-client-principal-id', 'ssl-client-verify', 'x-middleware-subrequest', 'proxy']
    const headers = Object.fromEntries([...overridingNames, ...further].map((name) => [name, 'forged']))
    const { answer, arrivals } = await fixture.front.ask({
      path: '/datasets',
      headers: { ...headers, ...oauth(member) },
    })
    t.equal(answer.status, 200)
    t.equal(arrivals.length, 1)
    for (const arrival of arrivals)
      t.same(
        arrival.headers.filter(([, value]) => value.includes('forged')),
        [],
      )
  })
})
