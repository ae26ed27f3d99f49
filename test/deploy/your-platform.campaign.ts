import { spawnSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { makeFolder } from '../support/deploy.ts'
import { keycloakArchive, keycloakLack } from '../support/keycloak.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { findStatuses, followPage, packInto, pageLack, readPage } from './tutorial.ts'

const { blocks, promised } = readPage('docs/tutorials/your-platform.md')

const lack = pageLack ?? keycloakLack ?? (spawnSync('unzip', ['-v']).status === 0 ? undefined : 'no unzip on PATH')

testUnlessLacking(t, 'the words of the tutorial lead from nothing to a platform with Keycloak', tryPage, lack)

async function tryPage(t: Test): Promise<void> {
  t.same(promised, ['401', '200', '200', '200', '403', '200', '403', '401', '401'], 'the page has its requests')
  const folder = makeFolder(t)
  await packInto(folder)
  symlinkSync(keycloakArchive(), join(folder, basename(keycloakArchive())))
  const ports = ['3000', '8080', '8081', '8180', '9090']
  const { code, stdout, stderr } = await followPage(t, folder, blocks.join('\n'), ports)
  t.equal(code, 0, stderr)
  t.match(stdout, /^2 routes, 2 roles, no mistakes, 0 warnings$/m)
  t.match(stdout, /^listReports +GET HEAD +\/reports +401 +role +yes +yes$/m)
  t.match(stdout, /^createReport +POST +\/reports +401 +role +role +yes$/m)
  t.match(stdout, /^ready: /m)
  t.match(stdout, /^memberships +\["editor in 1"\]$/m)
  t.same(findStatuses(stdout), promised)
  t.same(
    stdout.split('\n').filter((line) => line.startsWith('["')),
    [
      '["Sales of Acme"]',
      '["Sales of Acme","By ada@acme.example"]',
      '["Sales of Globex"]',
      '["Sales of Acme","By ada@acme.example"]',
    ],
    'each organization has its own',
  )
  t.match(stdout, /"code":"role_insufficient"[\s\S]*"code":"role_insufficient"[\s\S]*"code":"not_a_member"/)
  const logs = ['gateway.log', 'backend.log', 'keycloak.log'].map((name) => readFileSync(join(folder, name), 'utf8'))
  t.notMatch([stdout, stderr, ...logs].join(), /eyJ[\w-]+\.eyJ/, 'tokens are shown nowhere')
  t.match(logs[0], /drain/, 'and the gateway ends as SIGTERM would have it')
}
