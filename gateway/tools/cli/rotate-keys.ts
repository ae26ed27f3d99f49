import { UsageError } from '../../configuration/failure.ts'
import { generatePem } from './keys.ts'
import { replaceFile } from './replace-file.ts'
import { type Rotation, rotateBundle } from './rotate-bundle.ts'

export type RotateOptions = Readonly<{ file: string; after: string; force?: boolean; json?: boolean }>

export async function runRotateKeys(options: RotateOptions): Promise<void> {
  const { file } = options
  const afterMs = readSeconds(options.after) * 1_000
  const isForced = options.force === true
  const change = (old: string): Promise<Rotation> =>
    rotateBundle(old, { generatePem, nowMs: Date.now(), afterMs, isForced }).catch((error: Error) => {
      throw new Error(`${file}: ${error.message}`)
    })
  const rotation = await replaceFile(file, change).catch(explainFile(file))
  const advice = afterMs < cachesMs ? [...hurried, ...general(file)] : general(file)
  process.stdout.write(options.json ? `${JSON.stringify(describe(file, rotation))}\n` : narrate(file, rotation, advice))
}

function readSeconds(text: string): number {
  if (/^\d{1,7}$/.test(text)) return Number(text)
  throw new UsageError('--after must be a number of seconds from 0 to 9999999')
}

const explainFile =
  (file: string) =>
  (error: NodeJS.ErrnoException): never => {
    switch (error.code) {
      case 'ENOENT':
        throw new UsageError(`${file} does not exist. Name the key file with --file, or run "sallyport keys generate".`)
      case 'EPERM':
        throw new Error(
          `${file} belongs to another user, who could not read the new one. Rotate as that user or as root.`,
        )
      case 'EROFS':
        throw new Error(
          `${file} is mounted read-only. Rotate a copy of it, and put that in the place that it is mounted from.`,
        )
      default:
        throw error
    }
  }

const describe = (file: string, { algorithm, fresh, current, dropped }: Rotation) => ({
  file,
  algorithm,
  kid: fresh.kid,
  signsFrom: new Date(fresh.signsFromMs).toISOString(),
  current: current.kid,
  dropped: dropped.map(({ kid }) => kid),
})

function narrate(file: string, rotation: Rotation, advice: readonly string[]): string {
  const { kid, signsFrom, current, dropped } = describe(file, rotation)
  const lines = [
    `rotated ${file}`,
    `  new key     ${kid}, signs from ${signsFrom}`,
    `  current key ${current}, signs until then`,
    ...dropped.map((kid) => `  dropped     ${kid}`),
    ...advice,
  ]
  return `${lines.join('\n')}\n`
}

/** A backend may cache the public keys for this long. */
const cachesMs = 60_000

const hurried = [
  'The new key signs almost at once: a backend that caches public keys may refuse it until it fetches them again.',
]

const general = (file: string): readonly string[] => [
  'A running gateway takes the key in about a second, without a restart or a signal.',
  'If the file is mounted from a Kubernetes Secret, update that Secret. --after must leave every pod time to get it;',
  '300 seconds are enough (a subPath mount never gets it):',
  `  kubectl create secret generic NAME --from-file=identity.pem=${file} --dry-run=client -o yaml | kubectl apply -f -`,
]
