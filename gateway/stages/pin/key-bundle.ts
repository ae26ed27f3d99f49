export type KeyBlock = Readonly<{
  pem: string
  signsFromMs: number
  /** As in the file, with the text before the key, so that a rewritten file keeps an operator's notes. */
  text: string
}>

/** Base64 has no dash, so a block cannot run into the next. */
const pemBlock = /^-----BEGIN ([A-Z0-9 ]+)-----[^-]*-----END \1-----[^\S\n]*\n?/gm

/** `openssl ecparam` writes this block before its key, and it adds nothing to the key. */
const parametersBlock = /^-----BEGIN EC PARAMETERS-----[^-]*-----END EC PARAMETERS-----/gm

const privateKeys = ['PRIVATE KEY', 'EC PRIVATE KEY']

/** 1 KiB for each of the 32 keys: a key for Ed25519 or P-256 has under 300 in PEM, and comments may stand beside it. */
const mostCharacters = 32_768

/** OpenSSL blocks the event loop for half a millisecond per key: 1 MiB of keys took 4.6 s. */
const mostKeys = 32

export function readKeyBundle(text: string): readonly KeyBlock[] {
  if (text.length > mostCharacters) throw new Error(`a key file holds at most ${mostCharacters} characters`)
  const blocks: KeyBlock[] = []
  let start = 0
  for (const { 0: pem, 1: label = '', index } of text.matchAll(pemBlock)) {
    if (label === 'EC PARAMETERS') continue
    if (blocks.length === mostKeys) throw new Error(`a key file holds at most ${mostKeys} keys; remove expired ones`)
    const place = `block ${blocks.length + 1}`
    if (!privateKeys.includes(label)) throw new Error(`${place} is not a private key in PEM (PKCS #8)`)
    const signsFromMs = readExplanation(text.slice(start, index), place) ?? 0
    const end = index + pem.length
    blocks.push({ pem, signsFromMs, text: `${text.slice(start, end).trim()}\n` })
    start = end
  }
  const place = `block ${blocks.length + 1}`
  const dangling = readExplanation(text.slice(start), place)
  if (blocks.length === 0)
    throw new Error(
      `${place} is not a private key in PEM (PKCS #8)${isPath(text) ? ', and may be a path without "file:" before it' : ''}`,
    )
  if (dangling !== undefined) throw new Error('the last Signs-From has no key after it')
  return blocks
}

const isPath = (text: string): boolean => text.length < 256 && /^[\w~./-]+\s*$/.test(text) && /[./]/.test(text)

/**
 * Outside of the blocks a file may hold any notes. Only a line that resembles Signs-From is read, and then strictly.
 */
function readExplanation(text: string, place: string): number | undefined {
  if (text.replace(parametersBlock, '').includes('-----')) throw new Error(`${place} is incomplete`)
  const [line, ...more] = text.match(/^[ \t]*signs[-_ ]?from[ \t]*[:=].*$/gim) ?? []
  if (more.length > 0) throw new Error(`${place} has more than one Signs-From`)
  return line === undefined ? undefined : readTime(line.trim(), place)
}

/** UTC alone, so that the time zone of a replica does not matter. */
function readTime(line: string, place: string): number {
  const [, time = ''] = /^Signs-From: (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?Z)$/.exec(line) ?? []
  const at = new Date(time)
  // `Date` turns the 30th of February into a day in March, so the day is checked too.
  if (Number.isNaN(at.getTime()) || at.toISOString().slice(0, 10) !== time.slice(0, 10))
    throw new Error(`${place} must have its start as "Signs-From: 2030-01-01T00:00:00.000Z", in UTC`)
  return at.getTime()
}

export const writeKeyBlock = (pem: string, signsFromMs: number): string =>
  `Signs-From: ${new Date(signsFromMs).toISOString()}\n${pem}`
