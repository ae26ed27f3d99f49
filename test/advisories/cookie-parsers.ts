import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import type { Test } from 'tap'
import { findFreePort } from '../../demo/free-port.ts'
import { findGo, goLack } from '../integrate/go.ts'

/** The values of `current-org-id` that a program reads in each of some `Cookie` headers, given in Latin-1. */
type ReadAll = (t: Test, headers: readonly string[]) => Promise<readonly (readonly string[])[]>

export type CookieParser = Readonly<{ name: string; lack: string | undefined; readAll: ReadAll }>

const cookieName = 'current-org-id'

/** Gives a program one header a line, in Base64, and reads one JSON list of values a line. */
async function pipe(program: string, options: readonly string[], headers: readonly string[]) {
  const child = spawn(program, [...options], { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(headers.map((header) => `${Buffer.from(header, 'latin1').toString('base64')}\n`).join(''))
  const lines = (await text(child.stdout)).split('\n').slice(0, -1)
  if (lines.length !== headers.length) throw new Error(`${program}: ${lines.length} answers for ${headers.length}`)
  return lines.map((line): readonly string[] => JSON.parse(line))
}

const runs = (program: string, ...options: readonly string[]): boolean => spawnSync(program, options).status === 0

const python = (read: string): string => `
import sys, json, base64, warnings
warnings.simplefilter('ignore')
for line in sys.stdin:
    header = base64.b64decode(line).decode('latin-1')
    values = []
    try:
        ${read.trim().split('\n').join('\n        ')}
    except Exception:
        pass
    print(json.dumps([str(value) for value in values]))
`

const standardPython = python(`
from http.cookies import SimpleCookie
jar = SimpleCookie()
jar.load(header)
values = [jar['${cookieName}'].value] if '${cookieName}' in jar else []
`)

/** The loop of Django and Starlette, copied: both read cookies by the same few lines. */
const splittingPython = python(`
for chunk in header.split(';'):
    key, value = chunk.split('=', 1) if '=' in chunk else ('', chunk)
    if key.strip() == '${cookieName}': values.append(value.strip())
`)

const werkzeug = python(`
from werkzeug.http import parse_cookie
values = parse_cookie(header).getlist('${cookieName}')
`)

const ruby = (read: string): string => `
require 'json'
STDIN.each_line do |line|
  header = line.unpack1('m').force_encoding('ISO-8859-1')
  values = begin; ${read}; rescue StandardError; []; end
  puts JSON.generate(values.map { |value| value.to_s.encode('UTF-8', invalid: :replace, undef: :replace) })
end
`

const standardRuby = ruby(`require 'cgi'; (CGI::Cookie.parse(header)['${cookieName}'] || []).to_a`)
const rack = ruby(`require 'rack'; [Rack::Utils.parse_cookies_header(header)['${cookieName}']].compact`)

const goProgram = `package main
import ("bufio"; "encoding/base64"; "encoding/json"; "fmt"; "net/http"; "os")
func main() {
  lines := bufio.NewScanner(os.Stdin)
  lines.Buffer(nil, 1 << 20)
  for lines.Scan() {
    header, _ := base64.StdEncoding.DecodeString(lines.Text())
    request := http.Request{Header: http.Header{"Cookie": {string(header)}}}
    values := []string{}
    for _, cookie := range request.Cookies() {
      if cookie.Name == "${cookieName}" { values = append(values, cookie.Value) }
    }
    out, _ := json.Marshal(values)
    fmt.Println(string(out))
  }
}
`

async function readByGo(t: Test, headers: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'cookies-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'main.go'), goProgram)
  const program = join(folder, 'cookies')
  const built = spawnSync(findGo() ?? 'go', ['build', '-o', program, join(folder, 'main.go')], { encoding: 'utf8' })
  if (built.status !== 0) throw new Error(built.stderr)
  return pipe(program, [], headers)
}

/** PHP reads cookies of requests alone, so each header goes to PHP's own server on a connection of its own. */
async function readByPhp(t: Test, headers: readonly string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'cookies-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const page = `<?php $v = $_COOKIE['${cookieName}'] ?? null; header('Content-Type: text/plain');
    echo "\\n", json_encode($v === null ? [] : (is_array($v) ? array_map(fn($x) => 'array', array_values($v)) : [utf8_encode($v)]));`
  writeFileSync(join(folder, 'index.php'), page)
  const port = await findFreePort()
  const options = ['-d', 'error_reporting=0', '-S', `127.0.0.1:${port}`, join(folder, 'index.php')]
  const child = spawn('php', options, { stdio: 'ignore' })
  t.teardown(() => child.kill())
  const read = async (header: string): Promise<readonly string[]> => {
    const socket = connect(port, '127.0.0.1')
    socket.end(Buffer.from(`GET / HTTP/1.0\r\nHost: h\r\nCookie: ${header}\r\n\r\n`, 'latin1'))
    return JSON.parse((await text(socket)).split('\n').at(-1) || '[]')
  }
  for (let attempt = 0; attempt < 100; attempt++) {
    if (await read('a=1').catch(() => undefined)) break
    await wait(50)
  }
  const values: (readonly string[])[] = []
  for (const header of headers) values.push(await read(header))
  child.kill()
  await once(child, 'exit')
  return values
}

/** The package `cookie`, in the version that another package depends on. */
function fromNpm(owner: string): CookieParser {
  const require = createRequire(createRequire(import.meta.url).resolve(owner))
  const { parse, parseCookie } = require('cookie') as Record<
    'parse' | 'parseCookie',
    (header: string) => Record<string, string | undefined>
  >
  const read = parseCookie ?? parse
  const readAll: ReadAll = async (_, headers) =>
    headers.map((header) => {
      const value = read(header)[cookieName]
      return value === undefined ? [] : [value]
    })
  return { name: `cookie of npm, as ${owner} has it`, lack: undefined, readAll }
}

const piped = (
  name: string,
  lack: string | undefined,
  program: string,
  ...options: readonly string[]
): CookieParser => ({
  name,
  lack,
  readAll: (_, headers) => pipe(program, options, headers),
})

const lackUnless = (isThere: boolean, what: string): string | undefined => (isThere ? undefined : `there is no ${what}`)

// Debian installs `python3-werkzeug` for this interpreter, which need not be the first one in `PATH`.
const debianPython = '/usr/bin/python3'

export const cookieParsers: readonly CookieParser[] = [
  fromNpm('express'),
  fromNpm('light-my-request'),
  piped('http.cookies of Python', lackUnless(runs('python3', '--version'), 'python3'), 'python3', '-c', standardPython),
  piped('Django and Starlette', lackUnless(runs('python3', '--version'), 'python3'), 'python3', '-c', splittingPython),
  piped(
    'Werkzeug',
    lackUnless(runs(debianPython, '-c', 'import werkzeug'), 'python3-werkzeug'),
    debianPython,
    '-c',
    werkzeug,
  ),
  piped('CGI::Cookie of Ruby', lackUnless(runs('ruby', '-e', '1'), 'ruby'), 'ruby', '-e', standardRuby),
  piped('Rack', lackUnless(runs('ruby', '-e', "require 'rack'"), 'ruby-rack'), 'ruby', '-e', rack),
  { name: 'net/http of Go', lack: lackUnless(findGo() !== undefined, goLack), readAll: readByGo },
  { name: 'PHP', lack: lackUnless(runs('php', '--version'), 'php-cli'), readAll: readByPhp },
]
