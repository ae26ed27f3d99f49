// `npm run chart` writes the configuration's schema into the chart's values.schema.json. It also renders the chart by Helm
// into the plain manifests of examples/kubernetes.yaml.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const valuesSchemaFile = join(root, 'helm/sallyport/values.schema.json')
const manifestsFile = join(root, 'examples/kubernetes.yaml')

/** The chart sets these keys itself; a value for one is refused. */
const ownedByChart = [
  ['listeners', 'public', 'host'],
  ['listeners', 'public', 'port'],
  ['listeners', 'decision', 'host'],
  ['listeners', 'decision', 'port'],
  ['listeners', 'admin', 'host'],
  ['listeners', 'admin', 'port'],
  ['listeners', 'signals', 'host'],
  ['listeners', 'signals', 'port'],
  ['database', 'url'],
  ['redis', 'url'],
  ['identity', 'keys'],
  ['policies', 'directory'],
]
const containers = ['properties', 'items', 'additionalProperties']
const prefix = 'gateway.'

/** The chart's schema with the configuration's in it, as text. */
export function composeValuesSchema() {
  const schema = JSON.parse(readFileSync(valuesSchemaFile, 'utf8'))
  const gateway = JSON.parse(readFileSync(join(root, 'config/gateway.schema.json'), 'utf8'))
  const config = admitReferences({ properties: gateway.properties }).properties
  for (const path of ownedByChart) refuse(config, path)
  for (const required of ['issuers', 'upstreams']) delete config[required].default
  Object.assign(config.issuers, { minItems: 1 })
  Object.assign(config.upstreams, { minProperties: 1 })
  config.drain.required = ['delayMs', 'timeoutMs']
  // The chart computes the pod's grace period from both: they are numbers, not variables.
  for (const name of ['delayMs', 'timeoutMs']) config.drain.properties[name] = { type: 'integer', minimum: 0 }
  schema.properties.config.properties = config
  const own = Object.entries(schema.$defs).filter(([name]) => !name.startsWith(prefix) && name !== 'reference')
  const taken = Object.entries(gateway.$defs).map(([name, node]) => [`${prefix}${name}`, admitReferences(node)])
  const reference = {
    description: 'A variable of the environment, or file: and a path. The gateway checks the value it stands for.',
    type: 'string',
    pattern: '^file:|\\$[{]',
  }
  schema.$defs = Object.fromEntries([...own, ['reference', reference], ...taken])
  return `${JSON.stringify(schema, null, 2)}\n`
}

function refuse(properties, path) {
  const keys = [...path]
  const last = keys.pop()
  let node = { properties }
  for (const key of keys) node = node.properties[key]
  node.properties[last] = { $ref: '#/$defs/ofTheChart' }
  if (node.required) node.required = node.required.filter((name) => name !== last)
}

/** Any text of the configuration may be a reference, whatever type the key has once it is read. */
function admitReferences(node) {
  if (typeof node !== 'object' || node === null || node === undefined) return node
  if (typeof node.$ref === 'string') return { ...node, $ref: node.$ref.replace('#/$defs/', `#/$defs/${prefix}`) }
  if (!containers.some((name) => typeof node[name] === 'object')) return admitReference(node)
  const inner = { ...node }
  // Required keys of a default's object are the gateway's to miss: the chart adds some of them.
  for (const name of ['items', 'additionalProperties', 'then', 'else'])
    if (typeof node[name] === 'object') inner[name] = admitReferences(node[name])
  if (node.properties)
    inner.properties = Object.fromEntries(
      Object.entries(node.properties).map(([name, child]) => [name, admitReferences(child)]),
    )
  return inner
}

const isText = ({ type, pattern, enum: values }) => type === 'string' && pattern === undefined && values === undefined

function admitReference({ description, default: fallback, examples, ...node }) {
  const notes = { description, default: fallback, examples }
  for (const name of Object.keys(notes)) if (notes[name] === undefined) delete notes[name]
  if (Object.keys(node).length === 0 || isText(node) || node.type === 'object') return { ...notes, ...node }
  return { ...notes, anyOf: [node, { $ref: '#/$defs/reference' }] }
}

/** The plain manifests, as Helm renders them. */
export function composeManifests(helm) {
  const values = join('helm', 'sallyport', 'ci', 'minimal-values.yaml')
  const args = ['template', 'gateway', join('helm', 'sallyport'), '--namespace', 'edge', '--values', values]
  const rendered = execFileSync(helm, args, { cwd: root, encoding: 'utf8' })
  // Without Helm a hook is an object like others, and nothing deletes it.
  const plain = rendered
    .replaceAll(/^ +helm\.sh\/.*\n/gm, '')
    .replaceAll(/^ +annotations:\n(?! {4,})/gm, '')
    .replaceAll('managed-by: Helm', 'managed-by: kubectl')
    .replaceAll(/^ *(# Source:|helm\.sh\/chart:).*\n/gm, '')
  return `# Made by \`npm run chart\` from the Helm chart, for clusters without Helm; docs/guides/deploy.md has the steps.\n${plain}`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(valuesSchemaFile, composeValuesSchema())
  writeFileSync(manifestsFile, composeManifests(join(root, '.sallyport/deploy/bin/helm')))
  console.log('helm/sallyport/values.schema.json\nexamples/kubernetes.yaml')
}
