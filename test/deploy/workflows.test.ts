import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseDocument } from 'yaml'
import { repository } from '../support/deploy.ts'

type Step = Readonly<{ uses?: string; run?: string; with?: Readonly<Record<string, unknown>> }>
type Permissions = Readonly<Record<string, string>> | string
type Job = Readonly<{
  uses?: string
  needs?: string | readonly string[]
  steps?: readonly Step[]
  permissions?: Permissions
  'timeout-minutes'?: number
  environment?: string
  container?: Readonly<{ image: string }>
}>
type Workflow = Readonly<{ name?: string; permissions?: Permissions; jobs: Readonly<Record<string, Job>> }>

const read = (path: string): string => readFileSync(join(repository, path), 'utf8')
const folder = '.github/workflows'
const files = readdirSync(join(repository, folder)).map((file) => `${folder}/${file}`)

/** Parses YAML; fails with each mistake of syntax, a key that is written twice among them. */
function parseYaml<Shape>(text: string): Shape {
  const document = parseDocument(text)
  if (document.errors.length > 0) throw new Error(document.errors.join('\n'))
  return document.toJS()
}

const isRunnable = (path: string): boolean => {
  accessSync(join(repository, path), constants.X_OK)
  return true
}

/** Scripts of this repository that a step runs and that are not there. */
function findMissingScripts(run: string): readonly string[] {
  const { scripts } = JSON.parse(read('package.json'))
  const named = [...run.matchAll(/npm run (?:--\w+ )*([\w:-]+)/g)].map(([, name = '']) => name)
  const files = [...run.matchAll(/(?<![\w/])((?:scripts|\.ci)\/[\w./-]+)/g)].map(([, path = '']) => path)
  return [
    ...named.filter((name) => scripts[name] === undefined),
    ...files.filter((path) => !existsSync(join(repository, path)) || (path.startsWith('.ci/') && !isRunnable(path))),
  ]
}

/** An action of another repository by its whole commit, with the version that a reader knows; or a file of this one. */
const isPinned = (uses: string, line: string): boolean =>
  uses.startsWith('./')
    ? existsSync(join(repository, uses))
    : /^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/.test(uses) && /# v\d+\.\d+\.\d+$/.test(line)

/** Whether it proves the identity of this workflow to npm, a registry or a log. The environment waits for an approval. */
const mayAttest = (permissions: Permissions = {}): boolean =>
  ['id-token', 'attestations'].some((right) => typeof permissions === 'string' || permissions[right] === 'write')

/** Each fault of a workflow, as a sentence. */
function findFaults(text: string): readonly string[] {
  const workflow = parseYaml<Workflow>(text)
  const lines = text.split('\n')
  const jobs = Object.entries(workflow.jobs)
  const steps = jobs.flatMap(([, { steps = [] }]) => steps)
  const used = [...jobs, ...steps.map((step) => ['', step] as const)].flatMap(([, { uses }]) => uses ?? [])
  const granted = [workflow.permissions, ...jobs.map(([, { permissions }]) => permissions)]
  return [
    ...(workflow.permissions === undefined ? ['the workflow has no permissions'] : []),
    ...(Object.values(workflow.permissions ?? {}).includes('write') ? ['every job may write'] : []),
    ...granted.filter((given) => typeof given === 'string').map((given) => `permissions: ${given}`),
    ...used
      .filter((uses) => !isPinned(uses, lines.find((line) => line.includes(uses)) ?? ''))
      .map((uses) => `${uses} is not pinned`),
    ...steps.flatMap(({ run = '' }) => findMissingScripts(run)).map((name) => `${name} is missing`),
    // A text of a stranger, such as a branch's name, would be run.
    ...steps.filter(({ run = '' }) => run.includes('${{')).map(({ run }) => `an expression in: ${run}`),
    ...steps
      .filter(
        ({ uses, with: options }) =>
          uses?.startsWith('actions/checkout@') && options?.['persist-credentials'] !== false,
      )
      .map(() => 'a checkout leaves its token behind'),
    ...jobs
      .filter(([, { permissions, environment }]) => mayAttest(permissions) && environment !== 'release')
      .map(([name]) => `${name} may sign before the release is approved`),
    ...jobs.flatMap(([name, { needs = [], steps, 'timeout-minutes': minutes }]) => [
      ...[needs]
        .flat()
        .filter((other) => !(other in workflow.jobs))
        .map((other) => `${name} needs ${other}`),
      ...(steps && minutes === undefined ? [`${name} has no timeout`] : []),
    ]),
  ]
}

t.test('each workflow has least rights, pinned actions and scripts that are there', async (t) => {
  t.ok(files.length > 1)
  for (const file of files) t.same(findFaults(read(file)), [], file)
})

t.test('a workflow that breaks one of these rules is found', async (t) => {
  const good = read(`${folder}/ci.yaml`)
  const planted: readonly (readonly [from: RegExp, to: string])[] = [
    [/^permissions:\n.*\n/m, ''],
    [/^ {2}contents: read/m, '  contents: write'],
    [/^permissions:\n.*\n/m, 'permissions: write-all\n'],
    [/@[0-9a-f]{40}/, '@v7'],
    [/ # v7.*/, ''],
    [/\.ci\/run/, '.ci/walk'],
    [/\.ci\/run/, 'npm run absent'],
    [/\.ci\/run/, 'node scripts/absent.js'],
    [/\.ci\/run/, `echo $${'{{ github.head_ref }}'}`],
    [/persist-credentials: false/, 'fetch-depth: 1'],
    [/^ {4}timeout-minutes.*\n/m, ''],
    [/^ {4}timeout-minutes/m, '    needs: absent\n    timeout-minutes'],
  ]
  for (const [from, to] of planted) {
    t.match(good, from)
    t.equal(findFaults(good.replace(from, to)).length, 1, `${from} ${to}`)
  }
  t.throws(() => findFaults(`${good}\non: push\n`), { message: /unique/ })
})

t.test('a job that may sign before the release is approved is found', async (t) => {
  const good = read(`${folder}/release.yaml`)
  const signing = [...good.matchAll(/^ {4}environment: release\n/gm)]
  t.ok(signing.length > 2)
  const planted = good.replace(/^( {2}make:\n(?:.*\n)*? {4}permissions:\n)/m, '$1      id-token: write\n')
  t.same(findFaults(planted), ['make may sign before the release is approved'])
  t.ok(findFaults(good.replaceAll(/^ {4}environment: release\n/gm, '')).length >= 3)
})

/** Each image that a build or a demo starts, as it is named: of a stage, a service, a job, a step's input or a builder. */
const findImages = (text: string): readonly string[] =>
  [...text.matchAll(/^(?: *(?:image|BUILDER): |ARG NODE_IMAGE=|FROM |# *syntax=)(\S+)/gm)].map(
    ([, image = '']) => image,
  )

/** The tag tells a reader the version, and the digest alone says what runs. A tag may be led elsewhere. */
const isByDigest = (image: string): boolean => /^[\w.-]+\/[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/.test(image)

const nodeImage = /^ARG NODE_IMAGE=(.+)$/m.exec(read('Dockerfile'))?.[1] ?? ''

const withoutDigest: Readonly<Record<string, string>> = {
  // `npm run release` refuses it until then: the digest of a new version is known to the registry alone.
  ...(!isByDigest(nodeImage) && { [nodeImage]: 'raised where no registry could be asked' }),
  [`$${'{NODE_IMAGE}'}`]: 'stands for an image by digest',
  'docker.io/library/redis:8-trixie': 'of the demo alone, until its digest is read from the registry',
}

t.test('each image and builder is named by its digest', async (t) => {
  const images = [...files, 'Dockerfile', 'compose.yaml'].flatMap((file) => findImages(read(file)))
  t.same(new Set(images.filter((image) => !isByDigest(image))), new Set(Object.keys(withoutDigest)))
  t.ok(images.some((image) => image.startsWith('docker.io/moby/buildkit:')))
  t.ok(images.some((image) => image.startsWith('docker.io/tonistiigi/binfmt:')))
  const release = read(`${folder}/release.yaml`)
  t.notMatch(release, /buildx create(?!.* --driver-opt "image=\$BUILDER")/, 'no other builder')
  t.equal(
    release.match(/setup-qemu-action@.*\n *with:\n *image: /g)?.length,
    release.match(/setup-qemu-action@/g)?.length,
  )
  t.same(
    findImages('# syntax=docker/dockerfile:1\nFROM node AS build\n').filter(isByDigest),
    [],
    'planted ones are found',
  )
})

t.test('the gate runs in the image that the Dockerfile starts from', async (t) => {
  const { jobs } = parseYaml<Workflow>(read(`${folder}/ci.yaml`))
  t.equal(jobs.gate?.container?.image, /^ARG NODE_IMAGE=(.+)$/m.exec(read('Dockerfile'))?.[1])
})

t.test('the gate runs what `npm test` leaves out, then `npm test`, and its last line counts both', async (t) => {
  const gate = read('.ci/run')
  t.match(gate, /\n(?:TEST_JOBS=\d )?npm run test:gate \| tee "\$counts"\nnpm test \| tee -a "\$counts"\nawk /)
  t.ok(gate.includes('set -euo pipefail'), 'a command that fails ends the gate')
  const counts = join(
    t.testdir({ counts: 'ok x\n\n12 passed, 0 failed, 1 skipped\nok y\n\n5 passed, 2 failed, 0 skipped\n' }),
    'counts',
  )
  const sum = execFileSync('bash', ['-c', gate.slice(gate.indexOf('\nawk '))], {
    env: { ...process.env, counts },
    encoding: 'utf8',
  })
  t.equal(sum, '17 passed, 2 failed, 1 skipped\n')
})

t.test('releases are made and published by the Node of the image', async (t) => {
  const image = /:([\d.]+)-/.exec(/^ARG NODE_IMAGE=(.+)$/m.exec(read('Dockerfile'))?.[1] ?? '')?.[1]
  const versions = [...read(`${folder}/release.yaml`).matchAll(/node-version: (.+)/g)].map(([, version]) => version)
  t.ok(versions.length > 1)
  t.same([...new Set(versions)], [image])
})

t.test('updates are proposed for each folder that has a lock or a list of packages', async (t) => {
  type Update = Readonly<{ 'package-ecosystem': string; directory?: string; directories?: readonly string[] }>
  const { updates } = parseYaml<Readonly<{ updates: readonly Update[] }>>(read('.github/dependabot.yml'))
  const foldersOf = (ecosystem: string): readonly string[] =>
    updates
      .filter((update) => update['package-ecosystem'] === ecosystem)
      .flatMap(({ directory = [], directories = [] }) => [...[directory].flat(), ...directories])
      .sort()
  const listFolders = (pattern: RegExp): readonly string[] =>
    readdirSync(join(repository, 'scripts'), { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name)
      .filter((name) => readdirSync(join(repository, 'scripts', name)).some((file) => pattern.test(file)))
      .map((name) => `/scripts/${name}`)
      .sort()
  t.same(foldersOf('npm'), ['/', ...listFolders(/^package-lock\.json$/)])
  t.same(foldersOf('pip'), listFolders(/\.txt$/))
  t.same(foldersOf('gomod'), listFolders(/^go\.mod$/))
  t.same([foldersOf('docker'), foldersOf('github-actions')], [['/'], ['/']])
})

t.test('each form for issues has what GitHub asks for', async (t) => {
  type Form = Readonly<{ name: string; description: string; body: readonly Readonly<{ type: string; id?: string }>[] }>
  const forms = readdirSync(join(repository, '.github/ISSUE_TEMPLATE')).filter((file) => file !== 'config.yml')
  t.ok(forms.length > 1)
  for (const file of forms) {
    const { name, description, body } = parseYaml<Form>(read(`.github/ISSUE_TEMPLATE/${file}`))
    t.ok(name && description, file)
    t.ok(
      body.every(({ type, id }) => type === 'markdown' || id),
      file,
    )
  }
})
