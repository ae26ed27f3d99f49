import type { Configuration } from '../../configuration/configuration.ts'
import { warnOfOpenSecrets } from '../../configuration/secret-files.ts'
import { describeBug, type Log } from '../../observe/log/log.ts'
import type { Metrics } from '../../observe/metrics/metrics.ts'
import { ConfigurationError } from '../../policy/configuration-error.ts'
import type { Path } from '../../policy/document.ts'
import { createKeyring, type Keyring } from '../../stages/pin/keyring.ts'
import { readSigningKeys, type SigningAlgorithm, type SigningKey } from '../../stages/pin/signing-keys.ts'
import { repeat } from './watch-files.ts'
import { createKeyWatch } from './watch-keys.ts'

export type IdentityKeys = Pick<Keyring, 'signing' | 'published'> &
  Readonly<{ reload: () => Promise<void>; stop: () => void }>

type KeySettings = Pick<Configuration, 'identity' | 'problemAt'>

type IdentityKeyDependencies = Readonly<{ log: Log; metrics: Metrics; now: () => Date }>

/** A change is taken once two looks in a row have found it: after a second or so. */
const pollIntervalMs = 500

export async function openKeyring({ identity, problemAt }: KeySettings, now: () => Date): Promise<Keyring> {
  const refuse = (path: Path) => (error: unknown) => {
    const message = `identity.keys: ${(error as Error).message}. Run "sallyport keys generate" to make one.`
    throw new ConfigurationError([problemAt(path, message)])
  }
  const { keys, algorithm } = identity
  const list = ['identity', 'keys']
  const read = keys.map((text, index) => readSigningKeys(text, algorithm).catch(refuse([...list, index])))
  const found = (await Promise.all(read)).flat()
  return Promise.resolve()
    .then(() => createKeyring(found, now))
    .catch(refuse(list))
}

export async function startKeys(
  configuration: KeySettings,
  { log, metrics, now }: IdentityKeyDependencies,
): Promise<IdentityKeys> {
  const { keys, keyFiles, algorithm } = configuration.identity
  const keyring = await openKeyring(configuration, now)
  const look = createKeyWatch({
    texts: keys,
    files: keyFiles,
    apply: async (texts) => {
      keyring.replace(await readKeys(texts, algorithm))
      warnOfOpenSecrets(keyFiles.filter(isPresent), log)
    },
    noteOutcome: metrics.noteKeysReload,
    log,
  })
  const noteSigning = createSigningLog(keyring, log)
  const onBug = (error: unknown): void => {
    log.error({ error: describeBug(error) }, 'identity key check failed')
  }
  const stop = repeat(() => look().then(noteSigning), pollIntervalMs, onBug)
  const reload = (): Promise<void> => look(true).then(noteSigning).catch(onBug)
  return { signing: keyring.signing, published: keyring.published, reload, stop }
}

const isPresent = (file: string | undefined): file is string => file !== undefined

async function readKeys(texts: readonly string[], algorithm: SigningAlgorithm): Promise<readonly SigningKey[]> {
  const read = texts.map((text, index) =>
    readSigningKeys(text, algorithm).catch((error: Error) => {
      throw new Error(texts.length > 1 ? `entry ${index + 1}: ${error.message}` : error.message)
    }),
  )
  return (await Promise.all(read)).flat()
}

/**
 * Logs when another key begins to sign. The call to `signing` also tells the key ring that the old key served until
 * now.
 */
function createSigningLog(keyring: Keyring, log: Log): () => void {
  let last = keyring.signing().kid
  return () => {
    const { kid } = keyring.signing()
    if (kid !== last) log.info({ kid }, 'identity signing key changed')
    last = kid
  }
}
