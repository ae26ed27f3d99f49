import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { parse } from 'node:querystring'

/** All values, at any depth, that a program reads under one name in each query. */
type ReadAll = (queries: readonly string[]) => readonly (readonly string[])[]

export type QueryParser = Readonly<{ name: string; lack: string | undefined; readAll: ReadAll }>

export const parameterName = 'record_id'

/** One query a line in, in Base64; a JSON list of values a line out. */
function pipe(program: string, options: readonly string[], queries: readonly string[]) {
  const input = queries.map((query) => `${Buffer.from(query, 'latin1').toString('base64')}\n`).join('')
  const { stdout, stderr } = spawnSync(program, [...options], { input, encoding: 'utf8', maxBuffer: 2 ** 26 })
  const lines = stdout.split('\n').slice(0, -1)
  if (lines.length !== queries.length) throw new Error(`${program}: ${lines.length} answers; ${stderr}`)
  return lines.map((line): readonly string[] => JSON.parse(line))
}

const php = `
while (($line = fgets(STDIN)) !== false) {
  parse_str(base64_decode(trim($line)), $all);
  $found = [$all['${parameterName}'] ?? []];
  $values = [];
  array_walk_recursive($found, function ($value) use (&$values) { $values[] = $value; });
  echo json_encode($values, JSON_INVALID_UTF8_SUBSTITUTE), "\\n";
}
`

const ruby = (read: string): string => `
require 'json'
leaves = ->(value) { case value when Hash then value.values.flat_map(&leaves) when Array then value.flat_map(&leaves) else [value.to_s] end }
STDIN.each_line do |line|
  query = line.unpack1('m')
  found = begin; ${read}; rescue StandardError; nil; end
  puts JSON.generate((found.nil? ? [] : leaves.call(found)).map { |value| value.encode('UTF-8', invalid: :replace, undef: :replace) })
end
`

const python = `
import sys, json, base64
from urllib.parse import parse_qsl
for line in sys.stdin:
    query = base64.b64decode(line).decode('latin-1')
    print(json.dumps([value for name, value in parse_qsl(query, keep_blank_values=True) if name == '${parameterName}']))
`

const piped = (name: string, lack: string | undefined, program: string, flag: string, text: string): QueryParser => ({
  name,
  lack,
  readAll: (queries) => pipe(program, [flag, text], queries),
})

const runs = (program: string, ...options: readonly string[]): boolean => spawnSync(program, options).status === 0

const lackUnless = (isThere: boolean, what: string): string | undefined => (isThere ? undefined : `there is no ${what}`)

const listLeaves = (value: unknown): readonly string[] => {
  if (value === undefined || value === null) return []
  return typeof value === 'object' ? Object.values(value).flatMap(listLeaves) : [String(value)]
}

const inProcess = (name: string, read: (query: string) => unknown): QueryParser => ({
  name,
  lack: undefined,
  readAll: (queries) => queries.map((query) => listLeaves(read(query))),
})

const fromExpress = createRequire(createRequire(import.meta.url).resolve('express'))
const qs = fromExpress('qs') as { parse: (query: string, options?: object) => Readonly<Record<string, unknown>> }

export const queryParsers: readonly QueryParser[] = [
  inProcess('URLSearchParams', (query) => new URLSearchParams(query).getAll(parameterName)),
  inProcess('querystring of Node', (query) => parse(query)[parameterName]),
  inProcess('qs, as express has it', (query) => qs.parse(query)[parameterName]),
  piped('PHP', lackUnless(runs('php', '--version'), 'php-cli'), 'php', '-r', php),
  piped('urllib of Python', lackUnless(runs('python3', '--version'), 'python3'), 'python3', '-c', python),
  piped(
    'CGI of Ruby',
    lackUnless(runs('ruby', '-e', "require 'cgi'"), 'ruby'),
    'ruby',
    '-e',
    ruby(`require 'cgi'; CGI.parse(query)['${parameterName}']`),
  ),
  piped(
    'Rack',
    lackUnless(runs('ruby', '-e', "require 'rack'"), 'ruby-rack'),
    'ruby',
    '-e',
    ruby(`require 'rack'; Rack::Utils.parse_nested_query(query)['${parameterName}']`),
  ),
]
