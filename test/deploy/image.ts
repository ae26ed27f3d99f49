import { copyFileSync, cpSync, mkdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { makeFolder, repository, run, tool } from '../support/deploy.ts'
import { lastOf, readDockerfile, type Stage } from '../support/dockerfile.ts'
import type { Owner } from '../support/owner.ts'
import { buildArguments, type Container, type Mount } from '../support/sandbox.ts'

/** The files that the steps of the Dockerfile made, in a folder, and the start of its container. */
export type Image = Readonly<{ root: string; container: Container }>

/** The time of every file in the image, in seconds, so that two builds have equal bytes. */
export const epoch = 1_600_000_000

/** The files that a build may see, by the allow list of `.dockerignore`. */
export const contextOf = (): readonly string[] =>
  readFileSync(join(repository, '.dockerignore'), 'utf8')
    .split('\n')
    .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []))

/**
 * Runs the build stage step by step, as a builder does, in a sandbox without a network. The repository's packages are
 * installed there, and npm has its cache.
 */
export async function buildImage(owner: Owner): Promise<Image> {
  const [build, final] = readDockerfile()
  if (!build || !final) throw new Error('the Dockerfile has no two stages')
  const folder = makeFolder(owner)
  for (const name of ['build', 'image', 'cache']) mkdirSync(join(folder, name), { mode: 0o755 })
  cpSync(tool.cache, join(folder, 'cache'), { recursive: true })
  const mounts: readonly Mount[] = [
    { from: join(folder, 'build'), to: '/build', as: 'writable' },
    { from: join(folder, 'image'), to: '/image', as: 'writable' },
    { from: join(folder, 'cache'), to: '/cache', as: 'writable' },
    { from: realpathSync(join(repository, 'node_modules')), to: '/build/node_modules' },
    { from: tool.node, to: '/node/node' },
  ]
  const env = {
    PATH: `/node:${process.env.PATH}`,
    HOME: '/tmp',
    npm_config_cache: '/cache',
    npm_config_offline: 'true',
    SOURCE_DATE_EPOCH: String(epoch),
  }
  await takeSteps(build, folder, buildArguments(mounts, env))
  return { root: join(folder, 'image'), container: describeContainer(final, folder) }
}

async function takeSteps(stage: Stage, folder: string, sandbox: readonly string[]): Promise<void> {
  let directory = '/'
  for (const { name, value } of stage.instructions) {
    if (name === 'WORKDIR') {
      directory = value
      mkdirSync(join(folder, directory), { recursive: true })
    } else if (name === 'COPY') copy(value, join(folder, directory))
    else if (name === 'RUN') {
      const { code, stdout, stderr } = await run('bwrap', [...sandbox, '--chdir', directory, 'sh', '-ec', value])
      if (code !== 0) throw new Error(`RUN ${value}: ${stdout}${stderr}`)
    } else if (name !== 'ARG')
      throw new Error(`takeSteps cannot play the instruction ${name} of the Dockerfile; add it there`)
  }
}

function copy(value: string, directory: string): void {
  const words = value.split(' ')
  const target = words.pop() ?? ''
  for (const source of words) {
    if (!contextOf().includes(source)) throw new Error(`.dockerignore keeps ${source} from the builder`)
    // A folder's content is copied, a file under its name.
    const to = source === target.replace(/\/$/, '') ? target : join(target, source.split('/').at(-1) ?? '')
    cpSync(join(repository, source), join(directory, to), { recursive: true })
  }
}

/** Reads the container from the last stage; the built files are in `folder`. */
function describeContainer(final: Stage, folder: string): Container {
  const root = join(folder, 'image')
  const variables = final.instructions
    .filter(({ name }) => name === 'ENV')
    .map(({ value }) => value.replace(/="(.*)"$/, '=$1').split(/=(.*)/))
  // The user of the container may have no access to the folder of the repository.
  const node = join(folder, 'node')
  copyFileSync(tool.node, node)
  return {
    mounts: [
      { from: node, to: '/usr/local/bin/node' },
      { from: join(root, 'app'), to: '/app' },
      { from: join(root, 'etc/sallyport/config'), to: '/etc/sallyport/config' },
      { from: readlinkSync(join(root, 'usr/local/bin/sallyport')), to: '/usr/local/bin/sallyport', as: 'link' },
    ],
    env: Object.fromEntries(variables),
    directory: lastOf(final, 'WORKDIR'),
  }
}
