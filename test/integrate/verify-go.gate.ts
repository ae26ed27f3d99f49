import { execFile } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { call, type JsonValue } from '../support/client.ts'
import { testUnlessLacking } from '../support/lacks.ts'
import { oauth, startTestWorld, type TestWorld } from '../support/world.ts'
import { findGo, goLack, goModule } from './go.ts'
import { signIdentities } from './long-identity.ts'

const page = readFileSync(new URL('../../docs/guides/verify-identity.md', import.meta.url), 'utf8')
const [, snippet = ''] = /^```go\n([\s\S]*?)^```$/m.exec(page) ?? []
const placeholder = '"http://sallyport:9090/.well-known/jwks.json"'

const run = promisify(execFile)

/** A program that runs the page's snippet on each header of its command line, and prints the claims or the error. */
const program = `package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

func read(ctx context.Context, address string, request *http.Request) (any, error) {
${snippet.replace(placeholder, 'address')}
	return identity, err
}

func main() {
	told := []any{}
	for _, header := range os.Args[2:] {
		identity, err := read(context.Background(), os.Args[1], &http.Request{Header: http.Header{"X-Gateway-Identity": {header}}})
		if err != nil {
			told = append(told, err.Error())
		} else {
			told = append(told, identity)
		}
	}
	json.NewEncoder(os.Stdout).Encode(told)
}
`

async function build(t: Test, go: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'sallyport-test-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  for (const file of ['go.mod', 'go.sum']) copyFileSync(join(goModule, file), join(folder, file))
  writeFileSync(join(folder, 'main.go'), program)
  await run(go, ['build', '-mod=readonly', '-o', 'verify', '.'], { cwd: folder })
  return join(folder, 'verify')
}

async function askIdentity(world: TestWorld, uri: string): Promise<string> {
  const headers = { ...oauth(world.users.member), 'x-original-method': 'GET', 'x-original-uri': uri }
  return String((await call(world.decision, { path: '/authorize', headers })).headers['x-gateway-identity'])
}

async function testSnippet(t: Test, go: string): Promise<void> {
  const world = await startTestWorld(t)
  const stranger = await startTestWorld(t)
  const verify = await build(t, go)
  const ask = async (address: string, ...headers: readonly string[]): Promise<readonly JsonValue[]> =>
    // Variables of the machine, such as those of a proxy, must not reach it.
    JSON.parse((await run(verify, [address, ...headers], { env: {} })).stdout)
  const jwksUrl = `${world.admin}/.well-known/jwks.json`
  const good = await askIdentity(world, '/datasets')
  const [head, claims, signature = ''] = good.split('.')

  t.test('a header of the gateway says who is calling', async (t) => {
    const [identity] = await ask(jwksUrl, good)
    t.match(identity, { User: { ID: world.users.member.id }, Organization: { Role: 'org-member' } })
  })

  t.test('a header that the gateway did not sign for this backend is an error', async (t) => {
    const others = [
      `${head}.${claims}.${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`,
      `${Buffer.from('{"alg":"none"}').toString('base64url')}.${claims}.`,
      'x',
      await askIdentity(world, '/v1/files'),
      await askIdentity(stranger, '/datasets'),
    ]
    const told = await ask(jwksUrl, ...others)
    t.equal(told.length, others.length)
    for (const error of told) t.match(error, /^oidc: |^failed to verify /)
  })

  t.test('a header that lives longer than the gateway signs for is an error', async (t) => {
    const { jwksUrl, headers } = await signIdentities(t, [60, 61, 3_600])
    t.match(await ask(jwksUrl, ...headers), [{ User: { ID: 3 } }, 'lives too long', 'lives too long'])
  })

  t.test('keys that cannot be fetched are an error', async (t) => {
    t.match(await ask('http://127.0.0.1:1/', good), [/fetching keys/])
  })
}

const go = findGo()
testUnlessLacking(t, 'the snippet for Go', (t) => testSnippet(t, go ?? ''), go === undefined ? goLack : undefined)
